"""The reference witness over its HTTP, with proofs that the ledger's code makes."""

import asyncio
import base64
import json
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from gateways.client import new_client
from gateways.egress import Egress
from gateways.witness import WitnessAt, WitnessRefused, add_checkpoint
from ledger.checkpoints import Checkpoint, SealKey, VerifierKey, signers
from ledger.merkle import consistency_ranges, root_of
from sandbox.witness.__main__ import main
from sandbox.witness.app import Witness, create_app
from sandbox.witness.notes import LogKey
from sandbox.witness.state import Folder, Unusable

ORIGIN = "counterseal.ledger/0123456789abcdef0123456789abcdef"
AT = datetime(2026, 11, 30, 12, 0, tzinfo=UTC)
LEAVES = [bytes([number] * 32) for number in range(70)]
FORKED = [*LEAVES[:2], bytes(32), *LEAVES[3:]]
NAME = "witness.example/w1"


def key(number: int, name: str = ORIGIN) -> SealKey:
    return SealKey(name, Ed25519PrivateKey.from_private_bytes(bytes([number] * 32)))


def note(size: int, leaves: list[bytes] = LEAVES, signer: int = 1, following: int | None = None) -> str:
    next_key = None if following is None else key(following).public
    root = root_of(leaves[:size])
    return key(signer).sign(Checkpoint(ORIGIN, size, root, 1 + size, bytes(32), AT, next_key).text)


def proof(old: int, new: int, leaves: list[bytes] = LEAVES) -> list[bytes]:
    return [root_of(leaves[start:end]) for start, end in consistency_ranges(old, new)]


def body(old: int | str, nodes: Iterable[bytes], checkpoint: str) -> bytes:
    lines = "".join(f"{base64.b64encode(node).decode()}\n" for node in nodes)
    return f"old {old}\n{lines}\n{checkpoint}".encode()


class Asked:
    """A witness on a folder, in this process, and what it answers."""

    def __init__(self, data: Path, *logs: SealKey, now: float = 1_780_000_000.5) -> None:
        folder = Folder(data)
        data.mkdir(exist_ok=True)
        cosigner = folder.cosigner(NAME)
        self.key = VerifierKey.parse(cosigner.verifier_key)
        trusted = [LogKey.parse(str(each.public)) for each in logs or (key(1),)]
        app = create_app(Witness(folder, cosigner, trusted, lambda: now))
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://witness.example")

    async def post(self, content: bytes) -> httpx.Response:
        return await self._client.post("/add-checkpoint", content=content)

    async def add(self, old: int, checkpoint: str, nodes: list[bytes] | None = None) -> int:
        """Its status; a 200 has a cosignature that holds."""
        if nodes is None:
            nodes = proof(old, int(checkpoint.split("\n")[1]))
        answer = await self.post(body(old, nodes, checkpoint))
        assert (answer.status_code == 200) == bool(self.cosigned(checkpoint, answer))
        return answer.status_code

    def cosigned(self, checkpoint: str, answer: httpx.Response) -> list[VerifierKey]:
        return signers(checkpoint + answer.text, [self.key]) if answer.status_code == 200 else []


@pytest.fixture
def witness(tmp_path: Path) -> Asked:
    return Asked(tmp_path / "data")


async def test_a_log_that_grows_is_cosigned(witness: Asked) -> None:
    old = 0
    for size in (0, 1, 1, 2, 3, 7, 8, 8, 33, 70):
        assert await witness.add(old, note(size)) == 200, size
        old = size
    answer = await witness.post(body(70, [], note(70)))
    (line,) = answer.text.splitlines()
    assert answer.headers["content-type"].startswith("text/plain")
    signed = base64.b64decode(line.split(" ")[2])
    assert (line[:2], len(signed), int.from_bytes(signed[4:12], "big")) == ("— ", 76, 1_780_000_000)


async def test_every_pair_of_sizes(tmp_path: Path) -> None:
    for old in range(13):
        for new in range(old, 13):
            witness = Asked(tmp_path / f"{old}-{new}")
            assert await witness.add(0, note(old)) == 200
            nodes = proof(old, new)
            for wrong in ([*nodes, bytes(32)], nodes[1:], nodes[::-1], [*nodes[:-1], bytes(32)]):
                if wrong != nodes:
                    assert await witness.add(old, note(new), wrong) == 422, (old, new)
            assert await witness.add(old, note(new), nodes) == 200, (old, new)


async def test_a_fork_a_rollback_and_another_tree_of_the_same_size(witness: Asked) -> None:
    assert await witness.add(0, note(5)) == 200
    assert await witness.add(5, note(9, FORKED), proof(5, 9, FORKED)) == 422
    assert await witness.add(5, note(9, FORKED), proof(5, 9)) == 422
    assert await witness.add(5, note(5, FORKED), []) == 409
    for old, size in ((0, 9), (0, 3), (3, 3), (3, 5), (6, 9)):
        answer = await witness.post(body(old, proof(old, size), note(size)))
        assert (answer.status_code, answer.headers["content-type"], answer.text) == (409, "text/x.tlog.size", "5\n")
    assert await witness.add(5, note(3), []) == 400
    assert await witness.add(5, note(9)) == 200, "nothing of that was kept"


async def test_whose_checkpoints(tmp_path: Path) -> None:
    other = SealKey("log.example/other", key(1).private)
    witness = Asked(tmp_path / "data", key(1), key(2))
    stranger = other.sign(Checkpoint(other.name, 1, root_of(LEAVES[:1]), 1, bytes(32), AT).text)
    assert await witness.add(0, stranger, []) == 404
    assert await witness.add(0, note(1, signer=3)) == 403
    text = note(1).rpartition("\n\n")[0] + "\n\n"
    assert await witness.add(0, text + stranger.rpartition("\n\n")[2]) == 403, "of the same key by another name"
    assert await witness.add(0, text + note(2).rpartition("\n\n")[2]) == 403, "a signature over something else"
    unknown = note(1, signer=3).rpartition("\n\n")[2]
    assert await witness.add(0, note(1) + unknown) == 200, "one that is not known is ignored"
    assert await witness.add(1, note(2, signer=2)) == 200


async def test_two_at_once(tmp_path: Path) -> None:
    """Of forks that both go on from the same tree one is cosigned, whichever."""
    for attempt in range(5):
        witness = Asked(tmp_path / str(attempt))
        assert await witness.add(0, note(2)) == 200
        requests = [body(2, proof(2, size), note(size)) for size in range(3, 13)]
        requests += [body(2, proof(2, size, FORKED), note(size, FORKED)) for size in range(3, 13)]
        answers = await asyncio.gather(*map(witness.post, requests))
        (size,) = [at % 10 + 3 for at, answer in enumerate(answers) if answer.status_code == 200]
        assert sorted({answer.status_code for answer in answers}) == [200, 409]
        assert {answer.text for answer in answers if answer.status_code == 409} == {f"{size}\n"}


async def test_it_forgets_nothing(tmp_path: Path) -> None:
    assert await Asked(tmp_path / "data").add(0, note(5)) == 200
    again = Asked(tmp_path / "data")
    assert await again.add(0, note(3)) == 409
    assert await again.add(5, note(9, FORKED), proof(5, 9, FORKED)) == 422
    assert await again.add(5, note(6)) == 200
    assert {oct(path.stat().st_mode & 0o777) for path in (tmp_path / "data").iterdir()} == {"0o600"}
    (state,) = (tmp_path / "data").glob("log-*.json")
    assert json.loads(state.read_text())["note"] == note(6)
    state.write_text(state.read_text()[:-20])
    with pytest.raises(Unusable):
        Asked(tmp_path / "data")


async def test_what_cannot_be_kept_is_not_cosigned(witness: Asked, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as broken:
        broken.setattr("sandbox.witness.state.os.fsync", full)
        with pytest.raises(OSError, match="disk full"):
            await witness.add(0, note(5))
    assert await witness.add(0, note(3)) == 200


async def test_a_log_that_changes_its_key(tmp_path: Path) -> None:
    witness = Asked(tmp_path / "data")
    assert await witness.add(0, note(2, following=2)) == 200
    assert await witness.add(2, note(2, following=2)) == 200, "the same again, where an answer was lost"
    assert await witness.add(2, note(3)) == 403, "the key was given up"
    assert await witness.add(2, note(2, following=3)) == 403
    assert await witness.add(2, note(4, signer=3)) == 403
    again = Asked(tmp_path / "data")
    assert await again.add(2, note(3)) == 403, "after a restart too"
    assert await again.add(2, note(4, signer=2)) == 200
    assert await again.add(4, note(5, signer=2, following=3)) == 200
    assert await again.add(5, note(6, signer=3, following=1)) == 200, "one that was given up does not come back"
    assert await again.add(6, note(7)) == 403
    assert await again.add(6, note(7, signer=3)) == 200


async def test_a_next_key_counts_once_its_checkpoint_is_cosigned(witness: Asked) -> None:
    assert await witness.add(0, note(2)) == 200
    assert await witness.add(2, note(5, FORKED, following=2), proof(2, 5)) == 422
    assert await witness.add(2, note(5, signer=2)) == 403
    assert await witness.add(2, note(5)) == 200


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff",
        b"old 0",
        b"old 0\n\n",
        b"old 0\n\n\n",
        body("00", [], note(1)),
        body("-1", [], note(1)),
        body("0x1", [], note(1)),
        body("", [], note(1)),
        body("9" * 19, [], note(1)),
        body("9" * 5000, [], note(1)),
        body(0, [], note(1)).replace(b"old", b"new"),
        body(0, [], note(1))[:-1],
        body(0, [b"short"], note(1)),
        b"old 0\nno base64\n\n" + note(1).encode(),
        b"old 0\n" + note(1).encode(),
        body(0, [], note(1).replace("\n1\n", "\n01\n")),
        body(0, [], note(1).replace("\n1\n", "\n9999999999999999999\n")),
        body(0, [], note(1).replace("=\nseal", "\nseal")),
        body(0, [], note(1).replace("seal", "se\x00al")),
        body(0, [], note(1).replace("— ", "- ")),
        body(0, [], note(1).rpartition("—")[0]),
        body(0, [], note(1)) + b"x" * 200_000,
        body(1, [bytes(32)] * 64, note(1)),
    ],
)
async def test_garbage(witness: Asked, content: bytes) -> None:
    assert (await witness.post(content)).status_code == 400
    assert await witness.add(0, note(1)) == 200


async def test_a_proof_has_63_lines_at_most(witness: Asked) -> None:
    assert await witness.add(0, note(1)) == 200
    assert (await witness.post(body(1, [bytes(32)] * 63, note(9)))).status_code == 422
    assert (await witness.post(body(1, [bytes(32)] * 64, note(9)))).status_code == 400


@contextmanager
def started(data: Path) -> Generator[tuple[str, VerifierKey, subprocess.Popen[str]]]:
    arguments = ("--data", str(data), "--log", str(key(1).public), "--name", NAME)
    process = subprocess.Popen([sys.executable, "-m", "sandbox.witness", *arguments], stdout=subprocess.PIPE, text=True)
    with closing(process.stdout or sys.stdin) as said:
        try:
            ready = json.loads(said.readline())
            yield ready["url"], VerifierKey.parse(ready["verifier_key"]), process
        finally:
            process.kill()
            process.wait(10)


async def test_a_process_of_its_own_and_the_service_that_asks_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"

    async def ask(url: str, old: int, checkpoint: str, nodes: list[bytes]) -> list[str]:
        async with new_client() as client:
            egress = Egress({NAME: (url,)}, private=[NAME])
            return await add_checkpoint(client, egress, NAME, url, old, nodes, checkpoint)

    with started(data) as (url, own, _):
        (line,) = await ask(url, 0, note(5), [])
        assert signers(f"{note(5)}{line}\n", [own]) == [own]
        assert main(["--data", str(data), "--log", str(key(1).public)]) == 1
        assert capsys.readouterr().err == "witness: another witness runs on that folder\n"
    with started(data) as (url, same, process):
        assert same == own
        with pytest.raises(WitnessAt) as elsewhere:
            await ask(url, 0, note(3), [])
        assert elsewhere.value.size == 5
        for nodes, reason in ((proof(5, 9, FORKED), "not_consistent"), (proof(5, 9), "not_consistent")):
            with pytest.raises(WitnessRefused) as refusal:
                await ask(url, 5, note(9, FORKED), nodes)
            assert refusal.value.reason == reason
        with pytest.raises(WitnessRefused) as refusal:
            await ask(url, 5, note(5, FORKED), [])
        assert refusal.value.reason == "other_root"
        with pytest.raises(WitnessRefused) as refusal:
            await ask(url, 5, note(9, signer=2), proof(5, 9))
        assert refusal.value.reason == "unknown_key"
        assert await ask(url, 5, note(9), proof(5, 9))
        process.terminate()
        assert process.wait(10) == 0


def test_it_does_not_start_on_nonsense(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = str(key(1).public)
    Folder(tmp_path).cosigner(NAME)
    for data, trusted, name in (
        (tmp_path, log[:-3] + "A==", NAME),
        (tmp_path, "no key", NAME),
        (tmp_path, log, "other.example/w"),
        (tmp_path, log, "no name"),
        (tmp_path / "key.json", log, NAME),
    ):
        assert main(["--data", str(data), "--log", trusted, "--name", name]) == 1
        assert capsys.readouterr().err.startswith("witness: ")
