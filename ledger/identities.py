"""Which account an OpenID provider's subject has, what else its person is called, and how far their roles go."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.database import Connection, Database
from ledger.people import Grant, names_of
from ledger.queries import load

_SQL = load("identities")

Refusal = Literal["no_role", "name_taken", "no_name", "disabled"]


@dataclass(frozen=True, slots=True)
class Identity:
    """Whom an OpenID provider vouched for: (issuer, subject) says who it is, nothing else does.

    `username` is what an account would be called that is made for them; None when the provider gives no usable name.
    `names` is what they are called there. `roles` is what the provider grants, None where that is not its to say.
    """

    issuer: str
    subject: str
    username: str | None
    display_name: str
    names: frozenset[str]
    roles: frozenset[str] | None
    seen_at: datetime | None = None
    """When the person proved to the provider who they are, where it says so."""


@dataclass(frozen=True, slots=True)
class SignInBegun:
    """What a sign-in at the provider has to be ended with. `nonce` and `verifier` (PKCE) are random. `again`: by
    somebody who is signed in, to prove that it is still them."""

    nonce: str
    verifier: str
    return_to: str
    again: bool = False


class Identities:
    """Subjects, names and grants."""

    def __init__(self, database: Database) -> None:
        # Whose subject it is, and whether a name is free, can only be asked across tenants.
        self._pool = database.system

    async def admit(self, identity: Identity, tenant: str) -> tuple[str, str] | Refusal:
        """(tenant, username) of the subject's account, which is made in `tenant` when there is none; or why not.

        An account is never found by a name: where the name is taken it stays another's, and an operator links the two.
        """
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock"])
            row = await connection.fetchrow(_SQL["by_identity"], identity.issuer, identity.subject)
            if row is None:
                return await self._make(connection, identity, tenant)
            if row["disabled_at"] is not None:
                return "disabled"
            roles = await connection.fetchval(
                _SQL["seen"],
                identity.issuer,
                identity.subject,
                sorted(identity.names),
                None if identity.roles is None else sorted(identity.roles),
            )
            return (row["tenant"], row["username"]) if roles else "no_role"

    async def _make(self, connection: Connection, identity: Identity, tenant: str) -> tuple[str, str] | Refusal:
        if not identity.roles:
            return "no_role"
        username = identity.username
        if username is None:
            return "no_name"
        (name,) = names_of(username)
        if await connection.fetchval(_SQL["is_known"], username, name):
            return "name_taken"
        await connection.execute(_SQL["insert_user"], tenant, username, identity.display_name, sorted(identity.roles))
        await self._insert(connection, tenant, identity.issuer, identity.subject, username, identity.names, seen=True)
        return tenant, username

    async def _insert(
        self,
        connection: Connection,
        tenant: str,
        issuer: str,
        subject: str,
        username: str,
        names: frozenset[str],
        *,
        seen: bool,
    ) -> None:
        await connection.execute(
            _SQL["insert_identity"], tenant, issuer, subject, username, sorted(names | names_of(subject)), seen
        )

    async def account_of(self, issuer: str, subject: str) -> str | None:
        """The username of a subject's account; None when there is none."""
        row = await self._pool.fetchrow(_SQL["by_identity"], issuer, subject)
        return None if row is None else row["username"]

    async def link(self, username: str, issuer: str, subject: str) -> Literal["linked", "no_user", "taken"]:
        """Let a provider's subject sign in as this account. `taken`: it has an account already."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock"])
            account = await connection.fetchrow(_SQL["account"], username.lower())
            if account is None:
                return "no_user"
            if await connection.fetchrow(_SQL["by_identity"], issuer, subject) is not None:
                return "taken"
            await self._insert(
                connection, account["tenant"], issuer, subject, account["username"], frozenset(), seen=False
            )
            return "linked"

    async def join(self, username: str, other: str) -> Literal["joined", "no_user", "other_tenant"]:
        """Make two accounts one person's: neither decides what the other asked for, and both count once."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock"])
            one = await connection.fetchrow(_SQL["account"], username.lower())
            two = await connection.fetchrow(_SQL["account"], other.lower())
            if one is None or two is None:
                return "no_user"
            if one["tenant"] != two["tenant"]:
                return "other_tenant"
            await connection.execute(_SQL["merge"], one["person_id"], two["person_id"])
            return "joined"

    async def add_names(self, username: str, names: Sequence[str]) -> bool:
        """Say what else a person is called, an e-mail address for example; whether there is such an account."""
        known = sorted(names_of(*names))
        return await self._pool.fetchval(_SQL["add_names"], username.lower(), known) is not None

    async def grant(self, username: str, grant: Grant) -> bool:
        """Bound a role of somebody, or move its bound; whether there is such an account."""
        found = await self._pool.fetchval(
            _SQL["grant"], username.lower(), grant.role, grant.tool, grant.currency, grant.up_to
        )
        return found is not None

    async def revoke_grants(
        self, username: str, role: str, tool: str | None, *, unbounded: bool
    ) -> Literal["revoked", "none", "last"]:
        """Take bounds of a role away, for one tool or all. Without any the role is unbounded, so the last ones are kept
        unless that is meant."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock"])
            bounds = await connection.fetch(_SQL["bounds"], username.lower(), role)
            taken = [row for row in bounds if tool in (None, row["tool"])]
            if not taken:
                return "none"
            if len(taken) == len(bounds) and not unbounded:
                return "last"
            await connection.execute(_SQL["revoke_grants"], username.lower(), role, tool)
            return "revoked"

    async def begin_sign_in(self, hashed: bytes, begun: SignInBegun, *, seconds: int) -> None:
        """Keep what a sign-in at the provider has to be ended with, by the hash of what the browser holds."""
        await self._pool.execute(
            _SQL["begin_sign_in"], hashed, begun.nonce, begun.verifier, begun.return_to, float(seconds), begun.again
        )

    async def take_sign_in(self, hashed: bytes) -> SignInBegun | None:
        """What was begun, handed out once; None when it is unknown, was taken already, or took too long."""
        row = await self._pool.fetchrow(_SQL["take_sign_in"], hashed)
        if row is None or not row["in_time"]:
            return None
        return SignInBegun(row["nonce"], row["verifier"], row["return_to"], row["again"])
