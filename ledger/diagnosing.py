"""What is wrong with an export of the ledger, and where: every finding, not only the first.

Slow and thorough: all events go into a temporary database on disk, so that memory does not grow with them.
"""

import hashlib
import json
import sqlite3
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from ledger.chain import GENESIS
from ledger.checkpoints import NO_SEAL, BadCheckpoint, Checkpoint, VerifierKey, note_hash, signers
from ledger.findings import Finding, Kind
from ledger.lines import (
    END,
    MISSING_LINE,
    UNSEALED,
    header_in,
    read_event_line,
    read_seal,
    segment_files,
    segments_in,
)
from ledger.merkle import Frontier, folded
from ledger.queries import load
from ledger.seals import Seal
from ledger.verifying import Suspicious, read_end, read_keys
from schemas.canonical import canonical

_SQL = load("diagnosis")
_PAIRS_TRIED = 64


def diagnose(folder: Path, trusted: Checkpoint | None = None) -> list[Finding]:
    """Everything that can be found to be wrong; empty when nothing is."""
    with ExitStack() as stack:
        place = stack.enter_context(tempfile.TemporaryDirectory(prefix="counterseal-"))
        rows = stack.enter_context(closing(sqlite3.connect(Path(place) / "rows.sqlite", isolation_level=None)))
        rows.row_factory = sqlite3.Row
        rows.execute("PRAGMA journal_mode = OFF")
        rows.execute("PRAGMA synchronous = OFF")
        return _Diagnosis(folder, rows, trusted).findings()


@dataclass
class _Diagnosis:
    """One look at one export."""

    folder: Path
    rows: sqlite3.Connection
    trusted: Checkpoint | None
    found: list[Finding] = field(default_factory=list[Finding])
    missing: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    """(id, seal) of events that a seal names and that are not there."""
    explained: set[int] = field(default_factory=set[int])
    """Ids of events of which it was said what is wrong with them."""
    tree: Frontier | None = field(default_factory=Frontier)
    """The tree after the last seal; None when that cannot be known."""
    damaged: bool = False
    """The last seal was altered: what the next one says of it cannot be compared."""
    all_named: bool = True
    """Every seal could be read, with as many ids as were sealed."""

    def findings(self) -> list[Finding]:
        try:
            end = read_end(self.folder)
        except Suspicious:
            end = None
            self._say("incomplete", f"{END} is not there or not readable: the export was stopped before it was done")
        try:
            origin, keys = read_keys(self.folder)
        except Suspicious:
            origin, keys = "", []
            self._say("unverifiable", "keys.json is not there or not readable: no signature can be verified")
        self._load(whole=end is not None)
        last = self._seals(origin, keys)
        self._lost(last, end)
        self._altered()
        self._chains()
        self._unsealed(end)
        if self.trusted is not None:
            self._trusted(self.trusted, last)
        return self.found

    def _say(self, kind: Kind, what: str) -> None:
        self.found.append(Finding(kind, what))

    # --- reading

    def _load(self, *, whole: bool) -> None:
        self.rows.execute(_SQL["schema"])
        names = [segment_files(self.folder, number)[1:] for number in range(segments_in(self.folder))]
        names.append((self.folder / f"{UNSEALED}.jsonl", self.folder / f"{UNSEALED}.bin"))
        self.rows.execute("BEGIN")
        for lines, bodies in names:
            if not lines.exists() or not bodies.exists():
                if whole or lines.exists() != bodies.exists():
                    self._say("incomplete", f"{lines.name} or {bodies.name} is not there")
                continue
            self.rows.executemany(_SQL["insert"], self._events(lines, bodies))
        self.rows.execute("COMMIT")
        self.rows.executescript(_SQL["indexes"])

    def _events(self, lines: Path, bodies: Path) -> Iterator[tuple[Any, ...]]:
        with lines.open("rb") as to_lines, bodies.open("rb") as to_bodies:
            for number, line in enumerate(to_lines, start=1):
                place = f"{lines.name}:{number}"
                if MISSING_LINE.fullmatch(line):
                    continue
                if not line.endswith(b"\n"):
                    self._say("incomplete", f"{place} is cut off in the middle of an event")
                    return
                try:
                    stated = read_event_line(line)
                except ValueError:
                    self._say("altered", f"{place} is no event any more")
                    continue
                body = to_bodies.read(stated.size or 0)
                if len(body) != (stated.size or 0):
                    self._say("incomplete", f"{bodies.name} ends before the body of event {stated.id}")
                fits = stated.size is None or hashlib.sha256(body).hexdigest() == stated.event.body
                header = header_in(line)
                event = stated.event
                yield (
                    place,
                    stated.id,
                    event.request_id,
                    event.tenant,
                    event.n,
                    header.decode(errors="replace"),
                    event.body,
                    event.previous,
                    stated.hash,
                    hashlib.sha256(b"\x00" + header).hexdigest(),
                    fits,
                )
            if to_bodies.read(1):
                self._say("altered", f"{bodies.name} has more than its events name")

    def _lines_of_seals(self) -> Iterator[tuple[str, bytes]]:
        for segment in range(segments_in(self.folder)):
            path = segment_files(self.folder, segment)[0]
            with path.open("rb") as file:
                for number, line in enumerate(file, start=1):
                    yield f"{path.name}:{number}", line

    # --- seals

    def _seals(self, origin: str, keys: Sequence[VerifierKey]) -> Seal | None:
        """Every seal against the one before it and against its events: the last one that could be read."""
        last: Seal | None = None
        known: list[VerifierKey] = list(keys[:1])
        for place, line in self._lines_of_seals():
            try:
                seal = read_seal(line)
                checkpoint = seal.says
            except (ValueError, BadCheckpoint):
                if line.endswith(b"\n"):
                    self._say("altered", f"{place} is no seal any more")
                else:
                    self._say("incomplete", f"{place} is cut off in the middle of a seal")
                self.all_named, self.tree, self.damaged = False, None, True
                continue
            follows = self._follows(seal, checkpoint, last, origin)
            self.damaged = not self._signed(seal, known, keys)
            said = self._says_itself(seal, checkpoint)
            rows = self._events_of(seal)
            if rows is not None and self.tree is not None and follows and not self.damaged:
                self._covers(seal, checkpoint, rows, self.tree)
            # What was signed is where the next seal goes on from, whatever became of the events of this one.
            self.tree = Frontier(seal.size, seal.peaks) if said and not self.damaged else None
            known = [checkpoint.next_key] if checkpoint.next_key is not None else known
            last = seal
        return last

    def _follows(self, seal: Seal, checkpoint: Checkpoint, last: Seal | None, origin: str) -> bool:
        number = 1 if last is None else last.number + 1
        if origin and checkpoint.origin != origin:
            self._say("forked", f"seal {seal.number} is of another ledger: {checkpoint.origin}")
        elif self.damaged:
            return True
        elif seal.number > number:
            several = seal.number > number + 1
            gone = f"the seals {number} to {seal.number - 1} are" if several else f"seal {number} is"
            self._say("missing", f"{gone} gone")
            self.all_named = False
        elif seal.number < number:
            self._say("forked", f"there are two seals {seal.number}")
        elif checkpoint.previous != (NO_SEAL if last is None else note_hash(last.checkpoint)):
            self._say("forked", f"seal {seal.number} was made after another seal {number - 1} than is here")
        else:
            return True
        return False

    def _signed(self, seal: Seal, known: Sequence[VerifierKey], keys: Sequence[VerifierKey]) -> bool:
        """Whether it is as one key or another signed it."""
        try:
            if signers(seal.checkpoint, known):
                return True
            stranger = signers(seal.checkpoint, keys)
        except BadCheckpoint as problem:
            self._say("altered", f"seal {seal.number}: {problem}")
            return False
        if stranger:
            self._say("forked", f"seal {seal.number} is signed with a key that no seal before it named")
        else:
            self._say("unverifiable", f"the key that signed seal {seal.number} is not in keys.json")
        return True

    def _says_itself(self, seal: Seal, checkpoint: Checkpoint) -> bool:
        columns = {
            "number": seal.number == checkpoint.number,
            "size": seal.size == checkpoint.size,
            "peaks": len(seal.peaks) == seal.size.bit_count() and folded(seal.peaks) == checkpoint.root,
        }
        for name, right in columns.items():
            if not right:
                self._say("altered", f"seal {seal.number}: its {name} is not what was signed")
        return all(columns.values())

    def _events_of(self, seal: Seal) -> list[sqlite3.Row] | None:
        """The events that it names, in their order; None where some are not there."""
        rows: list[sqlite3.Row] = []
        gone: list[int] = []
        for first, end in seal.spans:
            self.rows.execute(_SQL["mark_sealed"], (seal.number, first, end))
            there = self.rows.execute(_SQL["in_span"], (first, end)).fetchall()
            rows += there
            gone += sorted(set(range(first, end + 1)).difference(row["id"] for row in there))
        self.missing += [(each, seal.number) for each in gone]
        for one, following in pairwise(rows):
            if one["id"] > following["id"]:
                self._say("reordered", f"{one['place']}: {_event(one)} stands before {_event(following)}")
                rows.sort(key=lambda row: row["id"])
                break
        return None if gone else rows

    def _covers(self, seal: Seal, checkpoint: Checkpoint, rows: Sequence[sqlite3.Row], before: Frontier) -> None:
        """Whether these events give its root, after what the seal before it had."""
        if before.size + len(rows) != checkpoint.size:
            self.all_named = False
            self._say("altered", f"seal {seal.number}: its ids are not as many as were sealed")
            return

        def gives(leaves: Sequence[str]) -> bool:
            tree = Frontier(before.size, before.peaks)
            try:
                tree.extend([bytes.fromhex(leaf) for leaf in leaves])
            except ValueError:
                return False
            return tree.root == checkpoint.root

        if gives([row["leaf"] for row in rows]):
            return
        if not gives([row["computed"] for row in rows]):
            self._unlike(seal, rows, gives)
            return
        for row in rows:
            if row["leaf"] != row["computed"]:
                self.explained.add(row["id"])
                self._say("altered", f"{_event(row)}: its hash was altered, all else is as it was sealed")

    def _unlike(self, seal: Seal, rows: Sequence[sqlite3.Row], gives: Callable[[Sequence[str]], bool]) -> None:
        """Say how the events are unlike those that were sealed."""
        leaves = [row["leaf"] for row in rows]
        order = {(row["request_id"], row["n"]): at for at, row in enumerate(rows)}
        backwards = [row for at, row in enumerate(rows) if order.get((row["request_id"], row["n"] - 1), -1) > at]
        if backwards:
            self._say("reordered", f"seal {seal.number}: {_event(backwards[0])} stands before the one it follows")
            return
        if len(rows) <= _PAIRS_TRIED:
            for at, one in enumerate(rows):
                for further in range(at + 1, len(rows)):
                    swapped = list(leaves)
                    swapped[at], swapped[further] = swapped[further], swapped[at]
                    if gives(swapped):
                        self._say(
                            "reordered", f"seal {seal.number}: {_event(one)} and {_event(rows[further])} changed places"
                        )
                        return
        if any(row["leaf"] != row["computed"] for row in rows):
            return
        which = f"its {len(rows)} events, the first of them {_event(rows[0])}, hold together"
        self._say("rewritten", f"seal {seal.number}: {which} and are not those that were sealed")

    # --- events

    def _lost(self, last: Seal | None, end: dict[str, int] | None) -> None:
        """Tell a lost tail, and a lost everything, from what is lost in the middle."""
        count = self.rows.execute(_SQL["count"]).fetchone()[0]
        if last is not None and self.missing and count == 0:
            self._say("emptied", f"all {len(self.missing)} events are gone that the seals name")
            return
        ids = [each for each, _ in self.missing]
        named = [each for seal in self._read_seals() for first, to in seal.spans for each in (first, to)] if ids else []
        newest = max(named, default=0)
        tail = 0
        while tail < len(ids) and ids and ids[-1 - tail] == newest - tail:
            tail += 1
        if tail:
            since = min(seal for each, seal in self.missing if each > newest - tail)
            self._say(
                "truncated", f"the newest {tail} events are gone, from event id {newest - tail + 1} in seal {since} on"
            )
        gaps = self._gaps() if ids else []
        for each, seal in self.missing:
            if each <= newest - tail:
                at = bisect_right(gaps, each, key=lambda gap: gap[0])
                known = gaps[at][1] if at < len(gaps) else ""
                self._say("missing", f"event id {each} of seal {seal} is gone{known}")
        if end is not None and end["seals"] > (0 if last is None else last.number):
            self._say("truncated", f"the export had {end['seals']} seals and has {0 if last is None else last.number}")

    def _read_seals(self) -> Iterator[Seal]:
        for _, line in self._lines_of_seals():
            try:
                yield read_seal(line)
            except ValueError:
                continue

    def _gaps(self) -> list[tuple[int, str]]:
        """(id of the event after it, what is known of it) of each event that is missing in its call."""
        rows = self.rows.execute(_SQL["broken"], (GENESIS.hex(),))
        return [
            (row["id"], f": event {row['n'] - 1} of {row['request_id']}")
            for row in rows
            if row["before"] is None and row["n"] > 1
        ]

    def _altered(self) -> None:
        for row in self.rows.execute(_SQL["altered"]).fetchall():
            if row["id"] in self.explained:
                continue
            self.explained.add(row["id"])
            if row["leaf"] == row["computed"]:
                self._say("altered", f"{_event(row)}: its body is not the one that was hashed")
                continue
            guess = self._guess(row)
            if guess is None:
                self._say(
                    "altered", f"{_event(row)}: its fields do not give its hash, at least one of them was altered"
                )
                continue
            name, was = guess
            kinds: dict[str, Kind] = {"tenant": "swapped", "n": "reordered"}
            now = json.loads(row["header"])[name]
            self._say(kinds.get(name, "altered"), f"{_event(row)}: its {name} is {now!r} and was {was!r}")

    def _guess(self, row: sqlite3.Row) -> tuple[str, Any] | None:
        """The one field that was altered and what it was, where the rest of the ledger still says it."""
        try:
            header: dict[str, Any] = json.loads(row["header"])
        except ValueError:
            return None
        others = [json.loads(each["header"]) for each in self.rows.execute(_SQL["of_call"], (row["request_id"],))]
        known = self.rows.execute(_SQL["by_leaf"], (row["previous"], row["previous"])).fetchone()
        after = self.rows.execute(_SQL["named_as_previous"], (row["leaf"],)).fetchone()
        tried: dict[str, list[Any]] = {
            name: [other[name] for other in others] for name in ("tenant", "key_id", "at", "type", "version", "n")
        }
        tried["n"] += [*([known["n"] + 1] if known else [1]), *([after["n"] - 1] if after else [])]
        tried["n"] += list(range(1, len(others) + 2))
        tried["request_id"] = [each["request_id"] for each in (known, after) if each]
        tried["tenant"] += [after["tenant"]] if after else []
        tried["version"] += [1, 2, 3]
        before = self.rows.execute(_SQL["of_call"], (row["request_id"],)).fetchall()
        tried["previous"] = [GENESIS.hex(), *(each[name] for each in before for name in ("leaf", "computed"))]
        for name, values in tried.items():
            for value in values:
                if value != header[name] and _leaf(header | {name: value}) == row["leaf"]:
                    return name, value
        return None

    def _chains(self) -> None:
        """Where the events of a call do not follow each other, as far as that is not said already."""
        said = {each for each, _ in self.missing} | self.explained
        for row in self.rows.execute(_SQL["broken"], (GENESIS.hex(),)).fetchall():
            if row["id"] in said or row["before"] in said:
                continue
            if row["n"] > 1 and row["before"] is None:
                # Where the one before it is there under another name, that was said of it.
                elsewhere = self.rows.execute(_SQL["by_leaf"], (row["previous"], row["previous"])).fetchone()
                if not self.missing and elsewhere is None:
                    self._say("missing", f"event {row['n'] - 1} of {row['request_id']} is gone")
            elif row["n"] > 1 and row["tenant"] != row["tenant_before"]:
                tenants = f"{row['tenant_before']!r} and then {row['tenant']!r}"
                self._say("swapped", f"the events of {row['request_id']} are of {tenants}")
            else:
                self._say("rewritten", f"{_event(row)} does not follow the one before it")
        for row in self.rows.execute(_SQL["twice"]).fetchall():
            self._say("forked", f"{_event(row)} is there {row['times']} times")
        for row in self.rows.execute(_SQL["ids_twice"]).fetchall():
            self._say("altered", f"event id {row['id']} is there {row['times']} times")

    def _unsealed(self, end: dict[str, int] | None) -> None:
        row = self.rows.execute(_SQL["unsealed"], (0 if end is None else end["settled"],)).fetchone()
        for each in (row["invented"] or "").split(","):
            if each and self.all_named:
                self._say("invented", f"event id {each} is in no seal, and all up to there was sealed")
        if end is not None and row["unsealed"] != end["unsealed"] and not self.missing and not self.found:
            self._say(
                "missing", f"the export had {end['unsealed']} events that were not sealed and has {row['unsealed']}"
            )

    # --- outside

    def _trusted(self, trusted: Checkpoint, last: Seal | None) -> None:
        if last is None:
            self._say("emptied", f"there is no seal at all, and seal {trusted.number} is known from elsewhere")
            return
        if last.number < trusted.number:
            self._say(
                "rolled_back",
                f"the ledger ends at seal {last.number}, and seal {trusted.number} is known from elsewhere",
            )
            return
        for seal in self._read_seals():
            if seal.number == trusted.number and _text(seal) != trusted.text:
                self._say("forked", f"seal {seal.number} here and seal {seal.number} from elsewhere are two")


def _text(seal: Seal) -> str:
    try:
        return seal.says.text
    except BadCheckpoint:
        return ""


def _leaf(header: dict[str, Any]) -> str:
    return hashlib.sha256(b"\x00" + canonical(header)).hexdigest()


def _event(row: sqlite3.Row) -> str:
    return f"event {row['n']} of {row['request_id']}"
