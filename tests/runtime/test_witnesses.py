"""The service with its witness: the reference one, in this process, and proofs from a tree in memory."""

from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateways.egress import Egress
from gateways.witness import WitnessRefused
from ledger.checkpoints import NO_SEAL, Checkpoint, SealKey, VerifierKey, note_hash, signers
from ledger.merkle import Frontier, consistency_ranges, root_of
from ledger.proving import NotSealed, Proofs
from ledger.seals import Seal
from runtime.witnesses import Witness
from sandbox.witness import app as sandbox
from sandbox.witness.notes import LogKey
from sandbox.witness.state import Folder

ORIGIN = "counterseal.ledger/0123456789abcdef0123456789abcdef"
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
URL = "https://witness.example"


def key(number: int) -> SealKey:
    return SealKey(ORIGIN, Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)))


class Ledger:
    """A ledger of one event after the other, and what `Proofs` says of it."""

    def __init__(self, leaves: Sequence[bytes] = ()) -> None:
        self.leaves = list(leaves)
        self.seals: list[Seal] = []
        self._signer = 1

    def seal(self, *leaves: bytes, rotate: bool = False) -> Seal:
        self.leaves += leaves
        frontier = Frontier()
        frontier.extend(self.leaves)
        number, size = len(self.seals) + 1, len(self.leaves)
        previous = note_hash(self.seals[-1].checkpoint) if self.seals else NO_SEAL
        following = key(self._signer + 1).public if rotate else None
        said = Checkpoint(ORIGIN, size, frontier.root, number, previous, AT, following)
        self.seals.append(Seal(number, (), size, tuple(frontier.peaks), key(self._signer).sign(said.text)))
        self._signer += rotate
        return self.seals[-1]

    async def had(self, size: int) -> bool:
        return size == 0 or any(seal.size == size for seal in self.seals)

    async def growth(self, size: int, number: int) -> list[bytes]:
        new = self.seals[number - 1].size
        if not await self.had(size) or size > new:
            raise NotSealed
        return [root_of(self.leaves[start:end]) for start, end in consistency_ranges(size, new)]

    async def rotations(self, size: int, number: int) -> list[Seal]:
        before = self.seals[: number - 1]
        return [seal for seal in before if seal.size >= size and seal.says.next_key is not None]


class World:
    """A witness that knows the ledger's first key, and processes of the service that ask it."""

    def __init__(self, data: Path) -> None:
        folder = Folder(data)
        data.mkdir()
        self.cosigner = folder.cosigner("witness.example/w1")
        app = sandbox.create_app(sandbox.Witness(folder, self.cosigner, [LogKey.parse(str(key(1).public))]))
        self.client = httpx.AsyncClient(transport=httpx.ASGITransport(app))
        self.key = VerifierKey.parse(self.cosigner.verifier_key)

    def process(self, ledger: Ledger) -> Witness:
        egress = Egress({self.key.name: (URL,)})
        return Witness(self.key, URL, self.client, egress, cast("Proofs", ledger))

    def cosigned(self, note: str | None) -> bool:
        return note is not None and signers(note, [self.key]) == [self.key]


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path / "data")
    async with made.client:
        yield made


def leaf(number: int) -> bytes:
    return bytes([number] * 32)


async def test_every_seal_is_cosigned_by_whichever_process(world: World) -> None:
    ledger = Ledger()
    one, other = world.process(ledger), world.process(ledger)
    for number, process in enumerate((one, one, other, other, one, other)):
        assert world.cosigned(await process.witness(ledger.seal(leaf(number), leaf(number + 100))))
    assert await world.process(ledger).witness(ledger.seals[2]) is None, "a newer one was cosigned: nothing is wrong"
    assert world.cosigned(await one.witness(ledger.seals[-1]))


async def test_a_witness_that_missed_the_rotations_gets_them(world: World) -> None:
    ledger = Ledger()
    await world.process(ledger).witness(ledger.seal(leaf(1)))
    for number in range(2, 5):
        ledger.seal(leaf(number), rotate=True)
    assert world.cosigned(await world.process(ledger).witness(ledger.seal(leaf(5))))
    process = world.process(ledger)
    assert world.cosigned(await process.witness(ledger.seal(leaf(6), rotate=True)))
    assert world.cosigned(await process.witness(ledger.seal(rotate=True)))
    assert world.cosigned(await process.witness(ledger.seal(leaf(7)))), "from where it stands"


async def test_a_key_that_nothing_named_is_refused(world: World) -> None:
    ledger = Ledger()
    await world.process(ledger).witness(ledger.seal(leaf(1)))
    stranger = Ledger([leaf(1)])
    stranger.seal(rotate=True)
    stranger.seals[0] = Ledger([leaf(1)]).seal()
    with pytest.raises(WitnessRefused) as refusal:
        await world.process(stranger).witness(stranger.seal(leaf(2)))
    assert refusal.value.reason == "unknown_key"


async def test_an_older_copy_is_refused_whether_or_not_it_went_on(world: World) -> None:
    ledger = Ledger()
    for number in range(4):
        await world.process(ledger).witness(ledger.seal(leaf(number)))
    copy = Ledger()
    copy.seal(leaf(0))
    with pytest.raises(WitnessRefused, match="has seen 4 events"):
        await world.process(copy).witness(copy.seal(leaf(1)))
    for number in (12, 13):
        copy.seal(leaf(number))
    with pytest.raises(WitnessRefused, match="other_root"):
        await world.process(copy).witness(copy.seals[-1])
    with pytest.raises(WitnessRefused, match="not_consistent"):
        await world.process(copy).witness(copy.seal(leaf(14)))
