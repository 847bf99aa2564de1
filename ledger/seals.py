"""Sealing: a signed tree head over all committed events, again and again, by one process at a time."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.checkpoints import NO_SEAL, BadCheckpoint, Checkpoint, SealKey, VerifierKey, note_hash, signers
from ledger.database import Connection, Pool
from ledger.keys import MasterKey
from ledger.merkle import Frontier, folded
from ledger.queries import load

_SQL = load("seals")
AT_ONCE = 10_000
"""How many events a seal covers at most, save those that were committed late."""
# An id is drawn a moment before its transaction has a number of its own.
_DRAWN_WITHIN = 60.0
_UNKNOWN = -1
# Where the newest calls are compared with their last events.
_LOOKED_BACK = timedelta(minutes=1)


class SealBroken(Exception):
    """What the ledger has and what was sealed do not agree; nothing may be appended. The text is ours."""


@dataclass(frozen=True, slots=True)
class Seal:
    """One seal as it is stored. `spans`: the ids of its events, as [first, last] runs in their order."""

    number: int
    spans: tuple[tuple[int, int], ...]
    size: int
    peaks: tuple[bytes, ...]
    checkpoint: str

    @classmethod
    def of(cls, row: asyncpg.Record) -> "Seal":
        spans = tuple((span.lower, span.upper - 1) for span in row["ids"])
        return cls(row["number"], spans, row["size"], _hashes(row["peaks"]), row["checkpoint"])

    @property
    def count(self) -> int:
        """How many events it covers."""
        return sum(last - first + 1 for first, last in self.spans)

    @property
    def says(self) -> Checkpoint:
        """What its checkpoint says. Raises BadCheckpoint."""
        return Checkpoint.parse(self.checkpoint)


@dataclass(slots=True)
class _Seen:
    """What this process knows of the ids: up to `high` all are sealed, save the missing ones.

    A missing id may still be committed until every transaction has ended that ran when it was found missing.
    """

    number: int
    high: int
    missing: dict[int, tuple[int, float]] = field(default_factory=dict[int, tuple[int, float]])


class Seals:
    """The seals of the ledger."""

    def __init__(self, pool: Pool, master: MasterKey) -> None:
        self._pool = pool
        self._master = master
        self._seen: _Seen | None = None

    async def seal(self) -> Seal | None:
        """Seal what was committed since the last seal: the new one; None when there is nothing, or another
        process is at it. Raises SealBroken when the last seal is an older one than before."""
        async with self._pool.acquire() as connection, connection.transaction():
            if not await connection.fetchval(_SQL["try_lock"]):
                return None
            sealed, seen = await self._seal(connection)
        # Only now: what was rolled back never was.
        self._seen = seen
        return sealed

    async def rotate(self) -> Seal:
        """Seal with the key that signs now, for the last time; that seal names the new key that signs from now on."""
        async with self._pool.acquire() as connection, connection.transaction():
            await connection.execute(_SQL["lock"])
            old = await self._key(connection)
            new = SealKey(old.name, Ed25519PrivateKey.generate())
            sealed, seen = await self._seal(connection, next_key=new.public)
            await connection.execute(_SQL["retire_key"], old.public.key_id.hex())
            await self._keep(connection, new)
        self._seen = seen
        if sealed is None:
            raise SealBroken("nothing was sealed")
        return sealed

    async def keys(self) -> list[VerifierKey]:
        """Every key that ever signed, from the first one on."""
        return [VerifierKey.parse(row["verifier_key"]) for row in await self._pool.fetch(_SQL["verifier_keys"])]

    async def last(self) -> Seal | None:
        row = await self._pool.fetchrow(_SQL["last_seal"])
        return None if row is None else Seal.of(row)

    async def read(self, number: int) -> Seal | None:
        row = await self._pool.fetchrow(_SQL["seal"], number)
        return None if row is None else Seal.of(row)

    async def late(self, seconds: float) -> bool:
        """Whether events have waited for longer than so many seconds to be sealed."""
        return await self._pool.fetchval(_SQL["late"], seconds)

    async def check(self, outside: Checkpoint | None = None) -> None:
        """Whether the newest seals hold, and agree with the newest checkpoint that was kept outside. Raises SealBroken.

        This is a look at the end of the ledger, where something is missing first; `ledger verify` looks at all of it.
        """
        last = await self.last()
        if outside is not None:
            await self._agrees(outside, last)
        if last is None:
            return
        checkpoint = await self._signed(last)
        before = await self.read(last.number - 1)
        frontier = Frontier() if before is None else Frontier(before.size, before.peaks)
        rows = await self._pool.fetch(_SQL["sealed_hashes"], last.number, last.number)
        frontier.extend([row["hash"] for row in rows])
        if frontier.size < last.size:
            raise SealBroken(f"{last.size - frontier.size} events are missing that seal {last.number} covers")
        if (frontier.size, frontier.root) != (last.size, checkpoint.root):
            raise SealBroken(f"the newest events are not those that seal {last.number} covers")
        headless = await self._pool.fetchval(_SQL["headless"], checkpoint.time - _LOOKED_BACK)
        if headless is not None:
            raise SealBroken(f"the last events of {headless} are missing")

    async def _agrees(self, outside: Checkpoint, last: Seal | None) -> None:
        if last is None or last.number < outside.number:
            at = "has no seal" if last is None else f"ends at seal {last.number}"
            raise SealBroken(f"the ledger {at}, and seal {outside.number} was written down outside of it")
        same = await self.read(outside.number)
        if same is None or _parsed(same).text != outside.text:
            raise SealBroken(f"seal {outside.number} is another one than was written down outside of the ledger")

    async def _signed(self, seal: Seal) -> Checkpoint:
        checkpoint = _parsed(seal)
        try:
            signed = bool(signers(seal.checkpoint, await self.keys()))
        except BadCheckpoint:
            signed = False
        if not signed:
            raise SealBroken(f"seal {seal.number} is not signed by this ledger")
        if (checkpoint.number, checkpoint.size, checkpoint.root) != (seal.number, seal.size, folded(seal.peaks)):
            raise SealBroken(f"seal {seal.number} was altered")
        return checkpoint

    async def _seal(self, connection: Connection, next_key: VerifierKey | None = None) -> tuple[Seal | None, _Seen]:
        """Under the lock: what was sealed, and what is known after it."""
        last = await connection.fetchrow(_SQL["last_seal"])
        number = 0 if last is None else last["number"]
        seen = self._seen
        if seen is not None and number < seen.number:
            raise SealBroken(f"the ledger ends at seal {number}; this process has seen seal {seen.number}")
        if seen is None or number != seen.number:
            seen = await self._look(connection, number)
        rows = await connection.fetch(_SQL["unsealed"], seen.high, list(seen.missing), AT_ONCE)
        found = {row["id"]: row["hash"] for row in rows if row["id"] is not None}
        missing = _still_missing(seen, found, rows[0]["next_transaction"], rows[0]["oldest_transaction"])
        high = max(seen.high, *found) if found else seen.high
        if not found and next_key is None:
            return None, _Seen(number, high, missing)
        frontier = Frontier() if last is None else Frontier(last["size"], _hashes(last["peaks"]))
        frontier.extend([found[each] for each in sorted(found)])
        key = await self._key(connection)
        previous = NO_SEAL if last is None else note_hash(last["checkpoint"])
        at: datetime = rows[0]["now"]
        checkpoint = Checkpoint(key.name, frontier.size, frontier.root, number + 1, previous, at, next_key)
        covered = tuple(spans(sorted(found)))
        seal = Seal(number + 1, covered, frontier.size, tuple(frontier.peaks), key.sign(checkpoint.text))
        await connection.execute(
            _SQL["insert_seal"],
            seal.number,
            ranges(covered),
            seal.size,
            b"".join(seal.peaks),
            seal.checkpoint,
            min(missing, default=high + 1) - 1,
        )
        return seal, _Seen(seal.number, high, missing)

    async def _look(self, connection: Connection, number: int) -> _Seen:
        """Which ids are sealed, from the database alone."""
        row = await self._sealing(connection)
        high, missing = row["settled"], dict[int, tuple[int, float]]()
        for span in row["sealed"]:
            # Since when they are missing nobody knows any more: from now on.
            missing |= dict.fromkeys(range(high + 1, span.lower), (_UNKNOWN, time.monotonic()))
            high = max(high, span.upper - 1)
        return _Seen(number, high, missing)

    async def _sealing(self, connection: Connection) -> asyncpg.Record:
        row = await connection.fetchrow(_SQL["sealing"])
        if row is None:
            raise SealBroken("the ledger has lost its name")
        return row

    async def _key(self, connection: Connection) -> SealKey:
        """The key that signs, made when there is none."""
        row = await connection.fetchrow(_SQL["current_key"])
        if row is not None:
            seed = self._master.unwrap(row["wrapped"], row["key_id"])
            return SealKey(VerifierKey.parse(row["verifier_key"]).name, Ed25519PrivateKey.from_private_bytes(seed))
        key = SealKey((await self._sealing(connection))["origin"], Ed25519PrivateKey.generate())
        await self._keep(connection, key)
        return key

    async def _keep(self, connection: Connection, key: SealKey) -> None:
        key_id = key.public.key_id.hex()
        wrapped = self._master.wrap(key.private.private_bytes_raw(), key_id)
        await connection.execute(_SQL["insert_key"], key_id, str(key.public), wrapped)


def spans(ids: Sequence[int]) -> list[tuple[int, int]]:
    """Ascending ids as [first, last] runs."""
    found: list[tuple[int, int]] = []
    for each in ids:
        if found and found[-1][1] == each - 1:
            found[-1] = (found[-1][0], each)
        else:
            found.append((each, each))
    return found


def ranges(spans: Sequence[tuple[int, int]]) -> list[object]:
    """[first, last] runs as Postgres has them."""
    return [asyncpg.Range(first, last + 1) for first, last in spans]


def _still_missing(
    seen: _Seen, found: dict[int, bytes], next_transaction: int, oldest_transaction: int
) -> dict[int, tuple[int, float]]:
    """Ids below the highest one that may still be committed."""
    now = time.monotonic()
    waited = {
        each: (next_transaction if transaction == _UNKNOWN else transaction, since)
        for each, (transaction, since) in seen.missing.items()
        if each not in found
        and (transaction == _UNKNOWN or oldest_transaction < transaction or now - since < _DRAWN_WITHIN)
    }
    at = seen.high
    for first, last in spans([each for each in sorted(found) if each > seen.high]):
        waited |= dict.fromkeys(range(at + 1, first), (next_transaction, now))
        at = last
    return waited


def _hashes(joined: bytes) -> tuple[bytes, ...]:
    return tuple(joined[at : at + 32] for at in range(0, len(joined), 32))


def _parsed(seal: Seal) -> Checkpoint:
    try:
        return seal.says
    except BadCheckpoint:
        raise SealBroken(f"seal {seal.number} was altered") from None
