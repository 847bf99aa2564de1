"""Proofs about single events and between checkpoints, for somebody who has neither the ledger nor an export."""

from collections.abc import Sequence

from ledger.chain import EventRow, event_hash, header, leaf_hash
from ledger.checkpoints import BadCheckpoint, Checkpoint, VerifierKey, signers
from ledger.database import Pool
from ledger.merkle import consistency_ranges, consistent, included, inclusion_ranges, roots_after
from ledger.queries import load
from ledger.seals import Seal, SealBroken
from schemas.base import Model

_SQL = load("seals")


class InclusionProof(Model):
    """That an event is the leaf `index` of the tree that `checkpoint` signs. Hashes in hexadecimal."""

    header: str
    """What is hashed of the event, as canonical JSON; it names the ciphertext by its hash alone."""
    index: int
    path: list[str]
    checkpoint: str

    def holds(self, keys: Sequence[VerifierKey]) -> bool:
        """Whether one of these keys signed the checkpoint, and the path leads from the event to its root."""
        try:
            checkpoint = Checkpoint.parse(self.checkpoint)
            signed = bool(signers(self.checkpoint, keys))
            path = [bytes.fromhex(node) for node in self.path]
        except (BadCheckpoint, ValueError):
            return False
        leaf = leaf_hash(self.header.encode())
        return signed and included(leaf, self.index, checkpoint.size, path, checkpoint.root)


class ConsistencyProof(Model):
    """That the tree of checkpoint `new` begins with the tree of checkpoint `old`. Hashes in hexadecimal."""

    old: str
    new: str
    path: list[str]

    def holds(self, keys: Sequence[VerifierKey]) -> bool:
        """Whether these keys signed both checkpoints, and nothing that the old one had is another in the new one."""
        try:
            old, new = Checkpoint.parse(self.old), Checkpoint.parse(self.new)
            signed = bool(signers(self.old, keys)) and bool(signers(self.new, keys))
            path = [bytes.fromhex(node) for node in self.path]
        except (BadCheckpoint, ValueError):
            return False
        return signed and consistent(old.size, new.size, old.root, new.root, path)


class NotSealed(Exception):
    """There is no such event, or it is not sealed yet."""


class Proofs:
    """Makes proofs from the database."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def included(self, request_id: str, n: int) -> InclusionProof:
        """That event `n` of a call is in the seal that covers it. Raises NotSealed."""
        found = await self._pool.fetchrow(_SQL["seal_of_event"], request_id, n)
        seal = None if found is None or found["number"] is None else await self._seal(found["number"])
        if found is None or seal is None:
            raise NotSealed
        before = await self._seal(seal.number - 1)
        size, peaks = (0, ()) if before is None else (before.size, before.peaks)
        rows = await self._pool.fetch(_SQL["sealed_ids"], seal.number)
        leaves = [row["hash"] for row in rows]
        index = size + [row["id"] for row in rows].index(found["id"])
        roots = roots_after(size, peaks, leaves)
        (event,) = await self._pool.fetch(_SQL["event_by_id"], found["id"])
        row = EventRow.of(event)
        if event_hash(row) != row.hash:
            raise SealBroken("that event was altered")
        path = [roots(*each).hex() for each in inclusion_ranges(index, seal.size)]
        return InclusionProof(header=header(row).decode(), index=index, path=path, checkpoint=seal.checkpoint)

    async def consistent(self, old: int, new: int) -> ConsistencyProof:
        """That seal `new` goes on from seal `old`. Raises NotSealed. Reads the hashes of all that is between them."""
        first, last = await self._seal(old), await self._seal(new)
        if first is None or last is None or old > new:
            raise NotSealed
        rows = await self._pool.fetch(_SQL["sealed_hashes"], old + 1, new)
        roots = roots_after(first.size, first.peaks, [row["hash"] for row in rows])
        path = [roots(*each).hex() for each in consistency_ranges(first.size, last.size)]
        return ConsistencyProof(old=first.checkpoint, new=last.checkpoint, path=path)

    async def growth(self, size: int, number: int) -> list[bytes]:
        """The nodes of the proof that seal `number` goes on from the tree of this size; none from nothing.

        Raises NotSealed when no seal ever had that size.
        """
        if size == 0:
            return []
        old = await self._pool.fetchval(_SQL["seal_of_size"], size)
        if old is None:
            raise NotSealed
        return [bytes.fromhex(node) for node in (await self.consistent(old, number)).path]

    async def had(self, size: int) -> bool:
        """Whether some seal has a tree of this size."""
        return size == 0 or await self._pool.fetchval(_SQL["seal_of_size"], size) is not None

    async def rotations(self, size: int, number: int) -> list[Seal]:
        """The seals before this one, of trees of this size or larger, in which a key named the next."""
        return [Seal.of(row) for row in await self._pool.fetch(_SQL["rotations"], size, number)]

    async def _seal(self, number: int) -> Seal | None:
        row = await self._pool.fetchrow(_SQL["seal"], number)
        return None if row is None else Seal.of(row)
