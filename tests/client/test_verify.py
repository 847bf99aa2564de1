"""The independent verifier: on exports and proofs that the service's own code makes. The tamper matrix has it too."""

import json
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from counterseal_client.verify import main
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ledger.chain import header
from ledger.checkpoints import Checkpoint, VerifierKey, signature_line
from ledger.merkle import consistency_ranges, inclusion_ranges, root_of
from ledger.proving import ConsistencyProof, InclusionProof
from ledger.verifying import Suspicious, verify
from tests.client.exports import AT, ORIGIN, events, key, write

WITNESS = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS_KEY = VerifierKey("witness.example/w1", 4, WITNESS.public_key().public_bytes_raw())
OF_LEDGER, NEXT = str(key(1).public), str(key(2).public)


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = main([str(each) for each in arguments])
    said = capsys.readouterr()
    assert (said.err, said.out.count("\n")) == ("", 1)
    return status, said.out


def cosigned(note: str, time: int = 1_780_000_000) -> str:
    text = note.rpartition("\n\n")[0] + "\n"
    signature = WITNESS.sign(f"cosignature/v1\ntime {time}\n{text}".encode())
    return note + signature_line(WITNESS_KEY, time.to_bytes(8, "big") + signature)


def keep(path: Path, note: str) -> Path:
    path.write_text(note)
    return path


def test_what_the_service_exports_holds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seals = write(tmp_path / "export", [1, 7, 0, 5, 16], segments=3, rotate=3, unsealed=4)
    verify(tmp_path / "export", processes=1)
    status, said = run(capsys, tmp_path / "export")
    assert (status, said) == (
        0,
        "Holds: 29 events in 5 seals, until 2026-11-30T12:00:05.000000Z (4 more are not sealed yet).\n",
    )
    for seal in seals:
        kept = keep(tmp_path / "kept", seal.checkpoint)
        status, said = run(capsys, tmp_path / "export", "--checkpoint", kept, "--key", OF_LEDGER, "--key", NEXT)
        assert (status, f"seal {seal.number} is one of them" in said) == (0, True), said
    assert run(capsys, tmp_path / "export", "--key", NEXT)[0] == 0, "any key that signed will do"
    write(tmp_path / "empty", [])
    assert run(capsys, tmp_path / "empty")[0] == 0


def test_it_runs_on_its_own(tmp_path: Path) -> None:
    """Without any of the service's packages, on the standard library and cryptography alone."""
    write(tmp_path / "export", [3])
    code = (
        "import sys; from counterseal_client.verify import main; status = main(sys.argv[1:]); "
        "ours = {'schemas', 'ledger', 'pydantic', 'msgspec', 'httpx', 'rfc8785'}; "
        "sys.exit(status or (9 if ours & set(sys.modules) else 0))"
    )
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path / "export")], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b""), done


def test_a_checkpoint_from_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    seals = write(tmp_path / "export", [3, 4])
    other = write(tmp_path / "other", [4, 3])
    longer = write(tmp_path / "longer", [3, 4, 2])
    export = tmp_path / "export"
    lines = "".join(json.dumps({"checkpoint": each.checkpoint}) + "\n" for each in seals)
    assert run(capsys, export, "--checkpoint", keep(tmp_path / "lines", lines))[0] == 0
    cut = keep(tmp_path / "cut", lines + '{"checkpoint": "coun')
    assert run(capsys, export, "--checkpoint", cut)[0] == 0, "a line that was torn is not the last one"
    for note, expected in (
        (other[0].checkpoint, "seal 1: is another one than was kept elsewhere"),
        (longer[2].checkpoint, "seal 3: was kept elsewhere, and this ends at seal 2"),
        ("no checkpoint\n", "that is no signed checkpoint"),
        ("\ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "that is no signed checkpoint"),
    ):
        status, said = run(capsys, export, "--checkpoint", keep(tmp_path / "kept", note))
        assert (status, expected in said) == (1, True), said
    assert run(capsys, export, "--checkpoint", tmp_path / "nowhere")[0] == 1


def test_a_witness_vouches_for_the_checkpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    note = write(tmp_path / "export", [3, 4])[1].checkpoint
    asked = (tmp_path / "export", "--key", WITNESS_KEY, "--checkpoint")
    assert run(capsys, *asked, keep(tmp_path / "kept", cosigned(note)))[0] == 0
    assert run(capsys, *asked, keep(tmp_path / "kept", note))[0] == 1, "the witness did not sign"
    for damage in (cosigned(note)[:-5] + "A==\n", cosigned(note).replace("seal 2", "seal 1")):
        assert run(capsys, *asked, keep(tmp_path / "kept", damage))[0] == 1
    assert run(capsys, tmp_path / "export", "--key", WITNESS_KEY)[0] == 1, "and no checkpoint, nothing to vouch for"


def test_another_key_is_not_trusted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(tmp_path / "export", [3, 4])
    status, said = run(capsys, tmp_path / "export", "--key", NEXT)
    assert (status, said) == (1, "Does not hold. the seals: none is signed with a trusted key.\n")
    assert run(capsys, tmp_path / "export", "--key", OF_LEDGER[:-3] + "A==")[0] == 1
    for wrong in ((), ("--proof", "x"), (str(tmp_path), "--proof", "x", "--key", NEXT)):
        with pytest.raises(SystemExit) as usage:
            main(wrong)
        assert usage.value.code == 2
    capsys.readouterr()


def test_both_verifiers_refuse_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One byte of one file another one, or gone, or one more; a file gone; lines exchanged."""
    whole, tried = tmp_path / "whole", tmp_path / "tried"
    write(whole, [2, 3, 4], segments=2, rotate=2, unsealed=2)
    chance = random.Random(20261130)
    paths = sorted(whole.iterdir())
    accepted: set[str] = set()
    for number in range(240):
        shutil.copytree(whole, tried)
        path = tried / paths[number % len(paths)].name
        content = bytearray(path.read_bytes())
        at = chance.randrange(len(content))
        if number % 5 == 0:
            del content[at]
        elif number % 5 == 1:
            content.insert(at, chance.choice(b' \n{"0a'))
        else:
            content[at] ^= 1 << chance.randrange(7)
        path.write_bytes(content)
        if not _agreed(tried, path.name, capsys):
            accepted.add(path.name)
        shutil.rmtree(tried)
    for path in paths:
        shutil.copytree(whole, tried)
        (tried / path.name).unlink()
        assert _agreed(tried, path.name, capsys), path.name
        shutil.rmtree(tried)
    for path in (each for each in paths if each.suffix == ".jsonl"):
        lines = path.read_bytes().splitlines(keepends=True)
        for at in range(len(lines) - 1):
            shutil.copytree(whole, tried)
            (tried / path.name).write_bytes(b"".join([*lines[:at], lines[at + 1], lines[at], *lines[at + 2 :]]))
            if not _agreed(tried, path.name, capsys):
                accepted.add(path.name)
            shutil.rmtree(tried)
    # In these are things that nothing signs: a time, the ids of what is not sealed, a key that is not needed here.
    assert accepted <= {"end.json", "keys.json", "unsealed.jsonl"}


def _agreed(folder: Path, altered: str, capsys: pytest.CaptureFixture[str]) -> bool:
    """Whether both refuse it; they agree, save that the independent one is stricter in how these two are written."""
    try:
        verify(folder, processes=1)
        refused = False
    except Suspicious:
        refused = True
    status, said = run(capsys, folder)
    assert status == refused or (status and altered in ("end.json", "keys.json")), (altered, said)
    return bool(status)


@pytest.mark.parametrize(
    ("file", "old", "new", "said"),
    [
        ("end.json", '"events":5', '"events":6', "there are not as many events"),
        ("end.json", '"settled":5', '"settled":"5"', "has another kind of settled"),
        ("seals-000000.jsonl", '"number":1,', '"number":2,', "is not seal 1"),
        ("seals-000000.jsonl", '"size":2}', '"size":3}', "seal 1: its size"),
        ("seals-000000.jsonl", '"ids":[[1,2]]', '"ids":[[2,2],[1,1]]', "is not event 2"),
        ("events-000000.jsonl", '"id":2,', '"id":3,', "is not event 2"),
        ("events-000000.jsonl", '{"event"', '{ "event"', "is not a line of canonical JSON"),
        ("unsealed.jsonl", '"id":6,', '"id":5,', "is among what was sealed"),
    ],
)
def test_what_no_signature_covers_has_to_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], file: str, old: str, new: str, said: str
) -> None:
    write(tmp_path / "export", [2, 3], unsealed=1)
    content = (tmp_path / "export" / file).read_text()
    assert old in content
    (tmp_path / "export" / file).write_text(content.replace(old, new, 1))
    status, why = run(capsys, tmp_path / "export")
    assert (status, said in why) == (1, True), why


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ({"said": lambda each: replace(each, previous=bytes(32))}, "was made after another seal"),
        ({"said": lambda each: replace(each, number=each.number + 1)}, "is not seal 1"),
        ({"said": lambda each: replace(each, origin="counterseal.ledger/other")}, "is of another ledger"),
        ({"said": lambda each: replace(each, root=bytes(32))}, "the events here are not those"),
        ({"skipped": 3}, "does not follow event 1 of act_é0"),
    ],
)
def test_a_signature_does_not_make_it_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], lie: dict[str, Any], said: str
) -> None:
    write(tmp_path / "export", [2, 6], **lie)
    status, why = run(capsys, tmp_path / "export")
    assert (status, said in why) == (1, True), why
    assert _agreed(tmp_path / "export", "", capsys)


LEAVES = [row.hash for _, row in events(13)]


@cache
def note_of(size: int, signer: int = 1) -> str:
    return key(signer).sign(Checkpoint(ORIGIN, size, root_of(LEAVES[:size]), size + 1, bytes(32), AT).text)


def proof_file(file: Path, proof: InclusionProof | ConsistencyProof, **changes: Any) -> Path:
    file.write_text(json.dumps(proof.model_dump() | changes, indent=2))
    return file


def nodes(ranges: list[tuple[int, int]]) -> list[str]:
    return [root_of(LEAVES[start:end]).hex() for start, end in ranges]


def test_every_inclusion_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows, file = events(13), tmp_path / "proof.json"
    for size in range(1, 14):
        for index in range(size):
            path = nodes(inclusion_ranges(index, size))
            proof = InclusionProof(
                header=header(rows[index][1]).decode(), index=index, path=path, checkpoint=note_of(size)
            )
            assert proof.holds([key(1).public])
            assert run(capsys, "--proof", proof_file(file, proof), "--key", OF_LEDGER)[0] == 0
            for changes in (
                {"index": index + 1},
                {"path": path[:-1] if path else ["00" * 32]},
                {"path": [*path, "00" * 32]},
                {"path": [*path[:-1], "00" * 32] if path else ["00"]},
                {"checkpoint": note_of(size - 1)},
            ):
                status, said = run(capsys, "--proof", proof_file(file, proof, **changes), "--key", OF_LEDGER)
                assert status == 1, (size, index, changes, said)


def test_every_consistency_proof(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "proof.json"
    for new in range(14):
        for old in range(new + 1):
            path = nodes(consistency_ranges(old, new))
            proof = ConsistencyProof(old=note_of(old), new=note_of(new, 2), path=path)
            assert proof.holds([key(1).public, key(2).public])
            both = ("--key", OF_LEDGER, "--key", NEXT)
            assert run(capsys, "--proof", proof_file(file, proof), *both)[0] == 0
            assert run(capsys, "--proof", proof_file(file, proof), "--key", OF_LEDGER)[0] == 1, (
                "the new one is of another"
            )
            for changes in ({"path": [*path, "00" * 32]}, {"path": path[1:] or ["00" * 32]}):
                assert run(capsys, "--proof", proof_file(file, proof, **changes), *both)[0] == 1, (old, new, changes)
            if old != new:
                exchanged = proof_file(file, proof, old=proof.new, new=proof.old)
                assert run(capsys, "--proof", exchanged, *both)[0] == 1


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        b"[]",
        b'"header"',
        b"\xff",
        b"[" * 100_000,
        b'{"old":"\\ud800","new":"","path":[]}',
        b'{"old":"","new":"","path":[1]}',
        b'{"old":"","new":"","path":["zz"]}',
        b'{"header":"{}","index":true,"path":[],"checkpoint":""}',
        b'{"header":"{}","index":-1,"path":[],"checkpoint":""}',
        b'{"header":"{}","index":0,"path":[],"checkpoint":""}',
    ],
)
def test_garbage_is_refused_in_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes) -> None:
    (tmp_path / "proof.json").write_bytes(content)
    status, said = run(capsys, "--proof", tmp_path / "proof.json", "--key", OF_LEDGER)
    assert (status, said.startswith("Does not hold. ")) == (1, True)
