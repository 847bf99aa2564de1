"""Who may do what: tokens, runs, people and their sessions. Tokens and sessions are stored as SHA-256 only."""

import asyncio
import hashlib
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

import asyncpg
from argon2 import PasswordHasher
from argon2.exceptions import InvalidHashError, VerificationError

from ledger.data_keys import DataKeys
from ledger.database import Database
from ledger.delegations import Delegations
from ledger.gathering import Gathered
from ledger.identities import Identities, Identity, Refusal
from ledger.people import NOBODY, Standing, standing_of
from ledger.queries import load
from ledger.streams import access_of, append, recorded
from schemas.calls import Binding
from schemas.events import TokenIssued, TokenRevoked, UserAdded, UserDisabled
from schemas.ids import new_run_id

_SQL = load("principals")
TokenKind = Literal["service", "run", "approver", "operator"]
_PREFIX: dict[TokenKind, str] = {"service": "cs_svc", "run": "cs_run", "approver": "cs_apr", "operator": "cs_opr"}
HASHER = PasswordHasher()
# Verified when the user is unknown, so that a wrong name takes as long as a wrong password. Of a secret that nobody
# knows, and made beforehand: it would cost every process a tenth of a second and 64 MiB at its start.
NOBODYS_HASH = "$argon2id$v=19$m=65536,t=3,p=4$T/XOjenBseoVaCk7ZyiZ9g$MJ3g+DiJd6TwL+HvFrszjpbO17UxtMXMbLUi1LC4sAk"
_HASHES_AT_ONCE = 4
SERVICE = "counterseal"
"""Who did what nobody else is named for."""
# 128 bits in base64url.
_SHORTEST = 22


@dataclass(frozen=True, slots=True)
class Principal:
    """The live holder of a token. `binding` and `tools` are a run's, `owner` a service's; `roles` and `standing` a
    person's."""

    kind: TokenKind
    tenant: str
    name: str
    token_id: str | None = None
    binding: Binding | None = None
    tools: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    owner: str | None = None
    standing: Standing = NOBODY
    resource: str | None = None
    """The one interface, by its URL, that the token is good at (RFC 8707); None for every one that takes its kind."""

    @property
    def person_id(self) -> str:
        return self.standing.person_id

    @property
    def names(self) -> frozenset[str]:
        return self.standing.names


@dataclass(frozen=True, slots=True)
class Person:
    """Someone who signed in on the web form. `open_alerts`: how many an operator has to see to, 100 at most.

    `issuer` is the OpenID provider that they signed in with, None for a password. Two accounts of one person have one
    `person_id`, and the `names` of both.
    """

    tenant: str
    username: str
    display_name: str
    roles: frozenset[str]
    csrf: str = ""
    open_alerts: int = 0
    standing: Standing = field(default=NOBODY, compare=False)
    issuer: str | None = None
    has_password: bool = False
    proven_at: datetime | None = None
    """When they signed in at the provider once more, to prove that it is them, and for which page."""
    proven_for: str | None = None

    @property
    def person_id(self) -> str:
        return self.standing.person_id

    @property
    def names(self) -> frozenset[str]:
        return self.standing.names


@dataclass(frozen=True, slots=True)
class OpenedRun:
    run_id: str
    token: str
    expires_at: datetime


def new_token(kind: TokenKind) -> str:
    """256 random bits behind a prefix that says what it opens (so that secret scanners find it)."""
    return f"{_PREFIX[kind]}_{secrets.token_urlsafe(32)}"


def token_hash(token: str) -> bytes:
    """What is stored of a token, and looked up."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class Principals:
    """Everyone and everything that can authenticate."""

    def __init__(self, database: Database, keys: DataKeys) -> None:
        self._database = database
        self._keys = keys
        # A hash takes tens of milliseconds and 64 MiB by design: off the event loop, and only a few at a time.
        self._hashing = asyncio.Semaphore(_HASHES_AT_ONCE)
        self.identities = Identities(database)
        self.delegations = Delegations(database.system, keys)
        self._holders = Gathered(self._find)

    async def authenticate(self, token: str) -> Principal | None:
        """Who holds this token now; None when it is unknown, expired, revoked, or its holder is disabled.

        Looked up by hash in the database on every request, so a revocation holds from the very next one: requests of
        the same moment share a statement, which begins after they came.
        """
        # Whose it is can only be known afterwards: this looks among every tenant's. Constant in time where it counts:
        # an index compares SHA-256 hashes. How far that of a guess agrees with a stored one says nothing about the
        # token, and a guesser cannot choose it.
        row = await self._holders.ask(token_hash(token))
        if row is None:
            return None
        binding = None
        if row["kind"] == "run":
            binding = Binding(**{name: row[name] for name in Binding.model_fields})
        return Principal(
            kind=row["kind"],
            tenant=row["tenant"],
            name=row["principal"],
            token_id=row["token_id"],
            binding=binding,
            tools=frozenset(row["tools"] or ()),
            roles=frozenset(row["roles"] or ()),
            owner=row["owner"],
            standing=standing_of(row) if row["username"] else NOBODY,
            resource=row["resource"],
        )

    async def _find(self, hashes: Sequence[bytes]) -> list[asyncpg.Record | None]:
        rows = await self._database.system.fetch(_SQL["by_tokens"], list(set(hashes)))
        found = {bytes(row["hash"]): row for row in rows}
        return [found.get(each) for each in hashes]

    async def issue(
        self,
        kind: TokenKind,
        tenant: str,
        principal: str,
        *,
        token: str | None = None,
        expires_at: datetime | None = None,
        owner: str | None = None,
        by: str = SERVICE,
    ) -> tuple[str, str]:
        """(token id, token), made by whom `by` names. `token` gives a known value, for seeding; it is stored once.
        `owner`: who answers for a service's agents.

        Raises ValueError for a value that has not even the length of 128 bits.
        """
        value = token or new_token(kind)
        if len(value) < _SHORTEST:
            raise ValueError("a token must be random, and have 128 bits at least")
        token_id = f"tok_{secrets.token_hex(8)}"
        issued = TokenIssued(
            token_id=token_id, kind=kind, principal=principal, owner=owner, expires_at=expires_at, by=by
        )
        async with recorded(self._database.tenant(tenant), self._keys, tenant) as connection:
            made = await connection.fetchval(
                _SQL["insert_token"], token_id, token_hash(value), kind, tenant, principal, None, expires_at, owner
            )
            if made is not None:
                await append(connection, self._keys, tenant, access_of(tenant), [issued])
        return token_id, value

    async def revoke(self, token_id: str, *, by: str = SERVICE) -> bool:
        """Whether there was such a token unrevoked. A run ends with its own token and with the one that opened it."""
        tenant = await self._database.system.fetchval(_SQL["tenant_of_token"], token_id)
        if tenant is None:
            return False
        async with recorded(self._database.system, self._keys, tenant) as connection:
            row = await connection.fetchrow(_SQL["revoke_token"], token_id)
            if row is not None and row["kind"] != "run":
                revoked = TokenRevoked(token_id=token_id, kind=row["kind"], principal=row["principal"], by=by)
                await append(connection, self._keys, tenant, access_of(tenant), [revoked])
            return row is not None

    async def revoke_run(self, service: Principal, run_id: str) -> datetime | None:
        """When the run ended: now, or when it was revoked before. None when this service opened no such run."""
        return await self._database.tenant(service.tenant).fetchval(
            _SQL["revoke_run"], run_id, service.tenant, service.name
        )

    async def tokens(self) -> list[asyncpg.Record]:
        return await self._database.system.fetch(_SQL["list_tokens"])

    async def open_run(
        self,
        service: Principal,
        *,
        agent_id: str,
        actor_id: str,
        customer_id: str,
        tools: Sequence[str],
        seconds: int,
        resource: str | None = None,
    ) -> OpenedRun:
        """Open a run for the tenant of `service` and mint its token, good at `resource` alone where one is named."""
        run_id, token = new_run_id(), new_token("run")
        expires_at = await self._database.tenant(service.tenant).fetchval(
            _SQL["open_run"],
            run_id,
            service.tenant,
            agent_id,
            actor_id,
            customer_id,
            list(tools),
            service.name,
            seconds,
            f"tok_{secrets.token_hex(8)}",
            token_hash(token),
            service.token_id,
            service.owner,
            resource,
        )
        return OpenedRun(run_id, token, expires_at)

    async def add_user(
        self,
        tenant: str,
        username: str,
        display_name: str,
        password: str,
        roles: Sequence[str],
        *,
        by: str = SERVICE,
    ) -> bool:
        """Whether the person was new; an existing account is left as it is."""
        async with self._hashing:
            hashed = await asyncio.to_thread(HASHER.hash, password)
        async with recorded(self._database.tenant(tenant), self._keys, tenant) as connection:
            added = await connection.fetchval(
                _SQL["upsert_user"], tenant, username.lower(), display_name, hashed, list(roles)
            )
            if added is not None:
                event = UserAdded(username=username.lower(), roles=tuple(roles), by=by)
                await append(connection, self._keys, tenant, access_of(tenant), [event])
            return added is not None

    async def users(self) -> list[asyncpg.Record]:
        return await self._database.system.fetch(_SQL["list_users"])

    async def disable_user(self, username: str, *, by: str = SERVICE) -> list[str]:
        """Shut out whose account this is; the accounts of theirs that were open until now."""
        tenant = await self.delegations.tenant_of(username)
        if tenant is None:
            return []
        async with recorded(self._database.system, self._keys, tenant) as connection:
            names = [row["username"] for row in await connection.fetch(_SQL["disable_user"], username.lower())]
            if names:
                events = [UserDisabled(username=name, by=by) for name in names]
                await append(connection, self._keys, tenant, access_of(tenant), events)
            return names

    async def sign_in(self, username: str, password: str, *, seconds: int = 8 * 3600) -> tuple[str, Person] | None:
        """(session secret, person) when the password is right; None otherwise, after the same work."""
        row = await self._database.system.fetchrow(_SQL["password"], username.lower())
        hashed: str | None = row["password_hash"] if row is not None else None
        if not await self._verify(hashed, password) or row is None:
            return None
        return await self._open_session(row["tenant"], row["username"], seconds, None)

    async def is_password_of(self, username: str, password: str) -> bool:
        """Whether this is the password of somebody who may sign in."""
        row = await self._database.system.fetchrow(_SQL["password"], username)
        return await self._verify(row["password_hash"] if row is not None else None, password)

    async def _verify(self, hashed: str | None, password: str) -> bool:
        """Takes as long without a hash, and answers no."""
        try:
            async with self._hashing:
                await asyncio.to_thread(HASHER.verify, hashed or NOBODYS_HASH, password)
        except (VerificationError, InvalidHashError):
            return False
        return hashed is not None

    async def sign_in_with(
        self, identity: Identity, tenant: str, *, seconds: int = 8 * 3600, proven_for: str | None = None
    ) -> tuple[str, Person] | Refusal:
        """(session secret, person) for whom an OpenID provider vouched just now, with the roles that it says; a subject
        that is new here gets an account of `tenant`. Or why not. `proven_for`: the page for which the session has proof
        that it is them."""
        admitted = await self.identities.admit(identity, tenant)
        if not isinstance(admitted, tuple):
            return admitted
        return await self._open_session(*admitted, seconds, identity, proven_for) or "disabled"

    async def _open_session(
        self,
        tenant: str,
        username: str,
        seconds: int,
        identity: Identity | None,
        proven_for: str | None = None,
    ) -> tuple[str, Person] | None:
        """None when the person was disabled meanwhile."""
        proven_at = identity.seen_at if identity is not None and proven_for is not None else None
        secret, csrf = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        await self._database.system.execute(_SQL["prune_sessions"])
        await self._database.tenant(tenant).execute(
            _SQL["open_session"],
            token_hash(secret),
            tenant,
            username,
            csrf,
            seconds,
            identity.issuer if identity is not None else None,
            proven_at,
            proven_for if proven_at is not None else None,
        )
        person = await self.session(secret)
        return None if person is None else (secret, person)

    async def session(self, secret: str) -> Person | None:
        """Who is signed in with this session; None when it ended or the person is disabled."""
        row = await self._database.system.fetchrow(_SQL["session"], token_hash(secret))
        if row is None:
            return None
        return Person(
            row["tenant"],
            row["username"],
            row["display_name"],
            frozenset(row["roles"]),
            row["csrf"],
            row["open_alerts"],
            standing_of(row),
            row["issuer"],
            row["has_password"],
            row["proven_at"],
            row["proven_for"],
        )

    async def sign_out(self, secret: str) -> None:
        await self._database.system.execute(_SQL["close_session"], token_hash(secret))
