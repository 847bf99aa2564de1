"""Whether an export of a Counterseal ledger, or a proof from one, holds.

    python -m counterseal_client.verify EXPORT [--checkpoint FILE] [--key VKEY]
    python -m counterseal_client.verify --proof FILE --key VKEY

Written from docs/reference/ledger-format.md; shares no code with what writes the ledger. Reads an export once, from its
beginning to its end, in memory that does not grow with it, save one entry per call. Nothing is decrypted.
"""

import argparse
import hashlib
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from counterseal_client.notes import LEDGER, WITNESS, Checkpoint, Key, NotHeld, check
from counterseal_client.trees import Tree, leaf_hash, root_from, roots_from

_LONGEST_LINE, _READ_AT_ONCE = 1 << 24, 1 << 20
_Shape = dict[str, type]
_END: _Shape = {"at": str, "events": int, "seals": int, "settled": int, "unsealed": int}
_KEYS: _Shape = {"origin": str, "verifier_keys": list}
_SEAL: _Shape = {"checkpoint": str, "ids": list, "number": int, "peaks": list, "size": int}
_EVENT: _Shape = {"event": dict, "hash": str, "id": int, "size": object}
_HEADER: _Shape = dict.fromkeys(("at", "body", "key_id", "previous", "request_id", "tenant", "type"), str)
_HEADER.update(n=int, version=int)
_INCLUSION: _Shape = {"header": str, "index": int, "path": list, "checkpoint": str}
_CONSISTENCY: _Shape = {"old": str, "new": str, "path": list}
_AT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00", re.ASCII)


def _canonical(value: object) -> bytes:
    """RFC 8785, of texts and whole numbers under names in ASCII."""
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


def _json(content: bytes, where: str, shape: Mapping[str, type], *, line: bool = True) -> dict[str, Any]:
    """A JSON object of this shape; as a line, canonical and with a newline after it."""
    try:
        found = json.loads(content)
        right = _canonical(found) + b"\n" == content or not line
    except (ValueError, RecursionError):
        found, right = None, False
    check(right, where, "is not a line of canonical JSON" if line else "is not JSON")
    return _shaped(found, where, shape)


def _is(value: Any, kind: type) -> bool:
    """Whether it is of this kind; numbers are whole and not below zero."""
    return isinstance(value, kind) and not isinstance(value, bool) and (not isinstance(value, int) or value >= 0)


def _shaped(value: Any, where: str, shape: Mapping[str, type]) -> dict[str, Any]:
    check(_is(value, dict) and set(value) == set(shape), where, f"does not have exactly {', '.join(shape)}")
    for name, kind in shape.items():
        check(_is(value[name], kind), where, f"has another kind of {name}")
    return value


class _Export:
    """One reading of an export, from its first event to its last."""

    def __init__(self, folder: Path, trusted: Checkpoint | None) -> None:
        self._folder = folder
        self._trusted = trusted
        self._tree = Tree()
        # Of each call (n, hash, tenant) of its last event.
        self._calls: dict[str, tuple[int, str, str]] = {}
        self._last: Checkpoint | None = None
        self._signer: Key | None = None
        self.signed = set[Key]()

    def read(self) -> str:
        """What holds. Raises NotHeld and OSError."""
        end, keys = self._small("end.json", _END), self._small("keys.json", _KEYS)
        known = [Key.parse(str(each)) for each in keys["verifier_keys"]]
        self._signer = known[0] if known else None
        for number in count():
            if not (self._folder / f"seals-{number:06}.jsonl").exists():
                break
            self._segment(f"{number:06}", keys["origin"])
        unsealed = self._unsealed(end["settled"])
        last = self._last
        seals = 0 if last is None else last.number
        said = (end["events"], end["seals"], end["unsealed"])
        check(
            said == (self._tree.size, seals, unsealed), "end.json", "there are not as many events or seals as it says"
        )
        if self._trusted is not None:
            known_until = self._trusted.number
            check(seals >= known_until, f"seal {known_until}", f"was kept elsewhere, and this ends at seal {seals}")
        until = "" if last is None else f", until {last.time}"
        return f"{self._tree.size} events in {seals} seals{until} ({unsealed} more are not sealed yet)"

    def _small(self, name: str, shape: Mapping[str, type]) -> dict[str, Any]:
        with (self._folder / name).open("rb") as file:
            return _json(file.read(_LONGEST_LINE), name, shape)

    def _segment(self, name: str, origin: str) -> None:
        with ExitStack() as stack:
            names = f"seals-{name}.jsonl", f"events-{name}.jsonl", f"bodies-{name}.bin"
            seals, events, bodies = (stack.enter_context((self._folder / each).open("rb")) for each in names)
            lines = _lines(events, names[1])
            where = ""
            for where, line in _lines(seals, names[0]):
                seal = _json(line, where, _SEAL)
                checkpoint = self._follows(seal, where, origin)
                for event_id in _ids(seal["ids"], where):
                    place, line = next(lines, (names[1], b""))
                    check(line not in (b"", b'{"missing":%d}\n' % event_id), place, f"event {event_id} is missing")
                    self._tree.append(self._event(line, place, event_id, bodies))
                sealed = (checkpoint.size, checkpoint.root) == (self._tree.size, self._tree.root)
                check(sealed, f"seal {checkpoint.number}", "the events here are not those that were sealed")
                given = [peak.hex() for peak in self._tree.peaks] == seal["peaks"]
                check(given, f"seal {checkpoint.number}", "its peaks do not give its root")
            check(bool(where), names[0], "is empty")
            check(not events.read(1) and not bodies.read(1), names[1], "there is more than the seals name")

    def _follows(self, seal: dict[str, Any], where: str, origin: str) -> Checkpoint:
        """The checkpoint of a seal, which is the next one."""
        found = Checkpoint(seal["checkpoint"], where)
        last = self._last
        number = 1 if last is None else last.number + 1
        previous = bytes(32) if last is None else hashlib.sha256(last.note.encode()).digest()
        check(found.number == seal["number"] == number, where, f"is not seal {number}")
        where = f"seal {number}"
        check(found.origin == origin, where, "is of another ledger than keys.json")
        check(found.previous == previous, where, "was made after another seal than is here before it")
        check(found.size == seal["size"], where, "its size is not the one that was signed")
        signer = self._signer
        if signer is None or not found.signers([signer]):
            raise NotHeld(f"{where}: is not signed with the key whose turn it is")
        self.signed.add(signer)
        if self._trusted is not None and self._trusted.number == number:
            check(self._trusted.text == found.text, where, "is another one than was kept elsewhere")
        self._last, self._signer = found, found.next_key or signer
        return found

    def _event(self, line: bytes, where: str, event_id: int | None, bodies: BinaryIO) -> bytes:
        """The leaf of the next event; with None, of one that is in no seal."""
        stated = _json(line, where, _EVENT)
        header, leaf = _header(stated["event"], where)
        check(event_id in (None, stated["id"]), where, f"is not event {event_id}, which the seal names here")
        where = f"{where} (event {stated['id']})"
        check(stated["hash"] == leaf.hex(), where, "its hash is not that of its header")
        if (size := stated["size"]) is not None:
            check(_is(size, int) and _digest(bodies, size) == header["body"], where, "its body is another one")
        call = header["request_id"]
        n, previous, tenant = self._calls.get(call, (0, "0" * 64, header["tenant"]))
        follows = (header["n"], header["previous"], header["tenant"]) == (n + 1, previous, tenant)
        check(follows, where, f"does not follow event {n} of {call}")
        self._calls[call] = (n + 1, stated["hash"], tenant)
        return leaf

    def _unsealed(self, settled: int) -> int:
        number = 0
        with (
            (self._folder / "unsealed.jsonl").open("rb") as lines,
            (self._folder / "unsealed.bin").open("rb") as bodies,
        ):
            for where, line in _lines(lines, "unsealed.jsonl"):
                self._event(line, where, None, bodies)
                check(json.loads(line)["id"] > settled, where, "is among what was sealed, and no seal names it")
                number += 1
            check(not bodies.read(1), "unsealed.bin", "there is more than the events name")
        return number


def _lines(file: BinaryIO, name: str) -> Iterator[tuple[str, bytes]]:
    for number in count(1):
        if not (line := file.readline(_LONGEST_LINE)):
            return
        yield f"{name}:{number}", line


def _ids(runs: list[Any], where: str) -> Iterator[int]:
    """The ids that a seal names, in their order."""
    last = -1
    for run in runs:
        right = _is(run, list) and len(run) == 2 and all(_is(each, int) for each in run) and last < run[0] <= run[1]
        check(right, where, "its ids are not runs [first, last] in their order")
        last = run[1]
        yield from range(run[0], last + 1)


def _header(value: Any, where: str) -> tuple[dict[str, Any], bytes]:
    """An event's header, and its leaf."""
    header = _shaped(value, where, _HEADER)
    check(_AT.fullmatch(header["at"]) is not None, where, "its time is none")
    return header, leaf_hash(_canonical(header))


def _digest(file: BinaryIO, size: int) -> str:
    """SHA-256 of the next bytes, in hexadecimal; of those that there are."""
    hashed = hashlib.sha256()
    while size > 0 and (part := file.read(min(size, _READ_AT_ONCE))):
        hashed.update(part)
        size -= len(part)
    return hashed.hexdigest()


def verify(folder: Path, trusted: Checkpoint | None = None, keys: Sequence[Key] = ()) -> str:
    """What holds of an export. Raises NotHeld, and OSError where a file is not there.

    `trusted`: a checkpoint that was kept elsewhere, or that one of the witnesses in `keys` cosigned. Where `keys` has
    keys of the ledger, one of them has to have signed a seal of it.
    """
    witnesses, ledgers = ([key for key in keys if key.kind == kind] for kind in (WITNESS, LEDGER))
    if witnesses:
        check(trusted is not None and bool(trusted.signers(witnesses)), "the checkpoint", "no such witness cosigned it")
    export = _Export(folder, trusted)
    held = export.read()
    check(not ledgers or bool(export.signed.intersection(ledgers)), "the seals", "none is signed with a trusted key")
    since = "" if trusted is None else f", and the checkpoint of seal {trusted.number} is one of them"
    return f"{held}{since}"


# --- a proof


def verify_proof(content: bytes, keys: Sequence[Key]) -> str:
    """What a proof shows, by a checkpoint that one of these keys signed. Raises NotHeld."""
    inclusion = b'"header"' in content
    proof = _json(content, "the proof", _INCLUSION if inclusion else _CONSISTENCY, line=False)
    try:
        path = [bytes.fromhex(node) for node in proof["path"]]
    except (TypeError, ValueError):
        raise NotHeld("the path: has something that is no hash") from None
    check(all(len(node) == 32 for node in path), "the path", "has something that is no hash")
    notes = [Checkpoint(proof[name], f"the {name}") for name in ("checkpoint", "old", "new") if name in proof]
    for note in notes:
        check(bool(note.signers(keys)), note.where, "is not signed with a trusted key")
    new = notes[-1]
    if inclusion:
        header, leaf = _header(_json(proof["header"].encode() + b"\n", "the header", _HEADER), "the header")
        at = proof["index"]
        check(at < new.size and root_from(leaf, at, new.size, path) == new.root, "the path", "leads to another root")
        event = f"event {header['n']} of {header['request_id']} ({header['type']})"
        return f"{event} is in {new.origin}, sealed until {new.time}"
    old = notes[0]
    check(old.origin == new.origin and old.size <= new.size, "the checkpoints", "the old one is not of an older tree")
    if old.size == 0:
        check(not path, "the path", "has another length than it must have")
    else:
        check(
            roots_from(old.size, new.size, path, old.root) == (old.root, new.root), "the path", "leads to other roots"
        )
    return f"the {new.size} events of seal {new.number} begin with the {old.size} of seal {old.number}, unchanged"


# --- the command


def main(arguments: Sequence[str] | None = None) -> int:
    """0 and a line where it holds; 1 and a sentence where it does not; 2 for wrong usage."""
    parser = argparse.ArgumentParser(
        prog="python -m counterseal_client.verify", description="Verify an export of a Counterseal ledger, or a proof."
    )
    parser.add_argument("export", nargs="?", type=Path, help="the folder of an export")
    parser.add_argument(
        "--checkpoint", type=Path, help="one that was kept elsewhere, or a file of them: the last counts"
    )
    parser.add_argument("--proof", type=Path, help="verify this proof instead of an export")
    parser.add_argument("--key", action="append", default=[], help="a verifier key that is trusted; may be repeated")
    options = parser.parse_args(arguments)
    if (options.export is None) == (options.proof is None) or (options.proof is not None and not options.key):
        parser.error("either an export, or --proof with --key")
    try:
        keys = [Key.parse(key) for key in options.key]
        if options.proof is not None:
            held = verify_proof(options.proof.read_bytes(), keys)
        else:
            trusted = None if options.checkpoint is None else read_checkpoint(options.checkpoint)
            held = verify(options.export, trusted, keys)
    except (NotHeld, OSError) as problem:
        said = f"{problem.filename}: {problem.strerror}" if isinstance(problem, OSError) else str(problem)
        sys.stdout.write(f"Does not hold. {said}.\n")
        return 1
    sys.stdout.write(f"Holds: {held}.\n")
    return 0


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file, or the last one of a file of lines {"checkpoint": …}. Raises NotHeld and OSError."""
    last = b""
    with path.open("rb") as file:
        text = file.read(_LONGEST_LINE)
        if text.startswith(b"{"):
            file.seek(0)
            for _, line in _lines(file, path.name):
                last = line if line.endswith(b"\n") else last
            text = str(_json(last, path.name, {"checkpoint": str}, line=False)["checkpoint"]).encode()
    try:
        return Checkpoint(text.decode(), path.name)
    except UnicodeDecodeError:
        raise NotHeld(f"{path.name}: is no checkpoint") from None


if __name__ == "__main__":
    sys.exit(main())
