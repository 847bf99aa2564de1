"""The policies that there were, and, where processes decide by what was published, which one is in force."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import asyncpg

from ledger.data_keys import DataKeys
from ledger.database import Connection, Pool
from ledger.keys import MasterKey
from ledger.people import how_many, names_of
from ledger.publishing import BadPublication, sign, signed_under, verified
from ledger.queries import load
from ledger.streams import append, last_of, recorded
from schemas.base import Model
from schemas.events import Event, PolicyProposed, PolicyPublished, PolicyVoted
from schemas.ids import new_proposal_id
from schemas.policies import Publication, Vote
from schemas.switches import EVERYONE

_SQL = load("policies")
STREAM = f"policies/{EVERYONE}"
_PROPOSALS = f"proposals/{EVERYONE}"


class PolicyConflict(Exception):
    """It cannot be put in force or proposed: another policy is in force than was thought, or was stored under the same
    version. The text says which."""


@dataclass(frozen=True, slots=True)
class Document:
    """A policy as it is stored: its version, SHA-256 over what it means, and its text as JSON."""

    version: str
    digest: str
    source: str


@dataclass(frozen=True, slots=True)
class InForce:
    """What the database says is in force. `publication` is what was signed; None where no key here signed it, or it
    speaks of something else."""

    number: int
    version: str
    source: str
    publication: Publication | None


@dataclass(frozen=True, slots=True)
class Published:
    """A version that was put in force then; `publication` as in `InForce`."""

    version: str
    at: datetime
    publication: Publication | None


class Terms(Model):
    """What the policy in force, publication `number`, asks of a change: how many people, of which role."""

    number: int
    people: int
    role: str


@dataclass(frozen=True, slots=True)
class Said:
    username: str
    vote: Vote
    reason: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Proposal:
    """A policy that somebody proposes in the place of publication `base`. `replaced_by`: what came after that one, this
    very version where it was agreed to."""

    proposal_id: str
    version: str
    source: str
    base: int
    reason: str
    proposed_at: datetime
    replaced_by: str | None
    votes: tuple[Said, ...]

    @property
    def proposer(self) -> str:
        return self.votes[0].username

    @property
    def is_open(self) -> bool:
        return self.status == "open"

    @property
    def status(self) -> Literal["open", "in force", "objected to", "overtaken"]:
        """Where it stands; `in force` also of one that was, and `overtaken` where another one was put in force."""
        if any(each.vote == "object" for each in self.votes):
            return "objected to"
        if self.replaced_by is None:
            return "open"
        return "in force" if self.replaced_by == self.version else "overtaken"


class Policies:
    """Policies hold for every tenant."""

    def __init__(self, pool: Pool, keys: DataKeys, master: MasterKey) -> None:
        self._pool = pool
        self._keys = keys
        self._master = master

    async def begun(self, version: str, source: str, *, by: str) -> bool:
        """Say that a process decides by this policy of its own; whether another one was the last."""
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            last = await last_of(connection, self._keys, STREAM)
            if isinstance(last, PolicyPublished) and last.policy_version == version:
                return False
            await connection.execute(_SQL["store_policy"], version, source)
            await self._append(connection, PolicyPublished(policy_version=version, by=by))
            return True

    async def source(self, version: str) -> str | None:
        """The text of a policy that was ever in force or proposed."""
        return await self._pool.fetchval(_SQL["stored_policy"], version)

    async def number(self) -> int:
        """Of the newest publication; 0 where there is none."""
        return await self._pool.fetchval(_SQL["newest_number"]) or 0

    async def in_force(self) -> InForce | None:
        """The newest publication; None where nothing was ever published."""
        row = await self._pool.fetchrow(_SQL["newest_publication"])
        return None if row is None else self._opened(row)

    async def publications(self, limit: int) -> list[Published]:
        """Newest first."""
        rows = await self._pool.fetch(_SQL["publications"], limit)
        return [Published(row["version"], row["published_at"], self._signed(row)) for row in rows]

    async def publish(self, document: Document, *, base: int, by: Sequence[str]) -> Publication:
        """Put it in force in the place of publication `base` (0: of none), signed. Raises PolicyConflict."""
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            await last_of(connection, self._keys, STREAM)
            await self._store(connection, document)
            return await self._publish(connection, document, base=base, by=by, proposal_id=None)

    async def propose(self, document: Document, terms: Terms, *, by: str, reason: str) -> Proposal:
        """Propose it in the place of what is in force; who proposes it agrees. It is in force at once where that is
        enough. Raises PolicyConflict."""
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            await self._expect(connection, terms.number)
            await self._store(connection, document)
            proposal_id = new_proposal_id()
            await connection.execute(_SQL["insert_proposal"], proposal_id, document.version, terms.number, reason)
            proposed = PolicyProposed(
                proposal_id=proposal_id, policy_version=document.version, base=terms.number, by=by, reason=reason
            )
            await self._append(connection, proposed, _PROPOSALS)
            await connection.fetchval(_SQL["insert_vote"], proposal_id, by, "agree", reason)
            await self._settle(connection, proposal_id, document, terms)
        return await self._found(proposal_id)

    async def vote(
        self, proposal_id: str, document: Document, terms: Terms, *, by: str, vote: Vote, reason: str
    ) -> Proposal:
        """Agree to a proposal of this very document, or object, which ends it; once a person. With the last agreement
        that it takes, of different people, it is in force. Raises PolicyConflict."""
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            await self._expect(connection, terms.number)
            proposal = await self._proposal(connection, proposal_id)
            if proposal is None or (proposal.version, proposal.source) != (document.version, document.source):
                raise PolicyConflict("there is no such proposal")
            if not proposal.is_open or proposal.base != terms.number:
                raise PolicyConflict("it is no longer open")
            if await connection.fetchval(_SQL["insert_vote"], proposal_id, by, vote, reason) is None:
                raise PolicyConflict(f"{by} has spoken already")
            voted = PolicyVoted(proposal_id=proposal_id, vote=vote, by=by, reason=reason)
            await self._append(connection, voted, _PROPOSALS)
            if vote == "agree":
                await self._settle(connection, proposal_id, document, terms)
        return await self._found(proposal_id)

    async def proposals(self, limit: int) -> list[Proposal]:
        """Newest first."""
        async with self._pool.acquire() as connection:
            return await self._proposals(connection, None, limit)

    async def proposal(self, proposal_id: str) -> Proposal | None:
        async with self._pool.acquire() as connection:
            return await self._proposal(connection, proposal_id)

    async def agreed(self, proposal: Proposal, role: str) -> tuple[int, frozenset[str]]:
        """How many different people of a role agree to it now, and all names of whoever proposed or agreed."""
        async with self._pool.acquire() as connection:
            return await self._agreed(connection, proposal, role)

    async def signed_by(self) -> str | None:
        """The id of the master key that what is in force is signed under; None for nothing, or another key."""
        row = await self._pool.fetchrow(_SQL["newest_publication"])
        return None if row is None else signed_under(row["token"], self._master)

    async def sign_anew(self) -> bool:
        """Publish what is in force once more, signed under the current master key, where it is not; whether it was.
        What does not verify stays as it is."""
        if await self.number() == 0 or await self.signed_by() == self._master.current.key_id:
            return False
        async with recorded(self._pool, self._keys, EVERYONE) as connection:
            await last_of(connection, self._keys, STREAM)
            row = await connection.fetchrow(_SQL["newest_publication"])
            found = None if row is None else self._opened(row)
            if row is None or found is None or found.publication is None:
                return False
            if signed_under(row["token"], self._master) == self._master.current.key_id:
                return False
            was = found.publication
            document = Document(was.policy_version, was.digest, found.source)
            await self._publish(
                connection, document, base=was.number, by=was.people, proposal_id=was.proposal_id, said_before=True
            )
            return True

    async def _store(self, connection: Connection, document: Document) -> None:
        await connection.execute(_SQL["store_policy"], document.version, document.source)
        if await connection.fetchval(_SQL["stored_policy"], document.version) != document.source:
            raise PolicyConflict(f"another text is stored as {document.version}")

    async def _expect(self, connection: Connection, number: int) -> None:
        """Under the lock of the stream, so that it stays so until the end of the transaction."""
        await last_of(connection, self._keys, STREAM)
        if (await connection.fetchval(_SQL["newest_number"]) or 0) != number:
            raise PolicyConflict("another policy was put in force meanwhile")

    async def _publish(
        self,
        connection: Connection,
        document: Document,
        *,
        base: int,
        by: Sequence[str],
        proposal_id: str | None,
        said_before: bool = False,
    ) -> Publication:
        row = await connection.fetchrow(_SQL["newest_publication"])
        if (0 if row is None else row["number"]) != base:
            raise PolicyConflict("another policy was put in force meanwhile")
        if row is not None and row["version"] == document.version and not said_before:
            raise PolicyConflict(f"{document.version} is in force")
        publication = Publication(
            number=base + 1,
            policy_version=document.version,
            digest=document.digest,
            previous=None if row is None else row["version"],
            people=tuple(by),
            proposal_id=proposal_id,
            published_at=await connection.fetchval(_SQL["clock"]),
        )
        token = sign(publication, self._master)
        await connection.execute(
            _SQL["insert_publication"], publication.number, document.version, token, publication.published_at
        )
        event = PolicyPublished(
            policy_version=document.version,
            by=by[0],
            number=publication.number,
            digest=document.digest,
            people=tuple(by),
            proposal_id=proposal_id,
        )
        await self._append(connection, event)
        return publication

    async def _settle(self, connection: Connection, proposal_id: str, document: Document, terms: Terms) -> None:
        """Put it in force where enough people agree."""
        proposal = await self._proposal(connection, proposal_id)
        if proposal is None or (await self._agreed(connection, proposal, terms.role))[0] < terms.people:
            return
        people = [each.username for each in proposal.votes]
        await self._publish(connection, document, base=terms.number, by=people, proposal_id=proposal_id)

    async def _agreed(self, connection: Connection, proposal: Proposal, role: str) -> tuple[int, frozenset[str]]:
        agreeing = [each.username for each in proposal.votes if each.vote == "agree"]
        rows = await connection.fetch(_SQL["voters"], agreeing)
        names = [(names_of(row["username"], *row["names"]), row["roles"]) for row in rows]
        everyones = frozenset[str]().union(names_of(*agreeing), *(each for each, _ in names))
        return how_many([each for each, roles in names if role in roles]), everyones

    async def _proposal(self, connection: Connection, proposal_id: str) -> Proposal | None:
        return next(iter(await self._proposals(connection, [proposal_id], 1)), None)

    async def _found(self, proposal_id: str) -> Proposal:
        found = await self.proposal(proposal_id)
        if found is None:
            raise LookupError("a proposal was written that is not there")
        return found

    async def _proposals(self, connection: Connection, ids: list[str] | None, limit: int) -> list[Proposal]:
        rows = await connection.fetch(_SQL["proposals"], ids, limit)
        votes = await connection.fetch(_SQL["votes"], [row["proposal_id"] for row in rows])
        return [
            Proposal(
                row["proposal_id"],
                row["version"],
                row["source"],
                row["base"],
                row["reason"],
                row["proposed_at"],
                row["replaced_by"],
                tuple(
                    Said(each["username"], each["vote"], each["reason"], each["voted_at"])
                    for each in votes
                    if each["proposal_id"] == row["proposal_id"]
                ),
            )
            for row in rows
        ]

    async def _append(self, connection: Connection, event: Event, stream: str = STREAM) -> None:
        await append(connection, self._keys, EVERYONE, stream, [event])

    def _opened(self, row: asyncpg.Record) -> InForce:
        return InForce(row["number"], row["version"], row["source"], self._signed(row))

    def _signed(self, row: asyncpg.Record) -> Publication | None:
        """What the token says, if it speaks of this row."""
        try:
            signed = verified(row["token"], self._master)
        except BadPublication:
            return None
        fits = (signed.number, signed.policy_version) == (row["number"], row["version"])
        return signed if fits else None
