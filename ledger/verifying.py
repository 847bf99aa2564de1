"""Whether an export of the ledger holds: quickly, in every core, in memory that does not grow with it.

Each segment is verified by itself, from the tree of the last seal before it; where all hold, the whole does. Here it is
only found out whether something is wrong. What, `ledger.diagnosing` finds.
"""

import hashlib
import json
import mmap
import os
import tempfile
import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from ledger.chain import GENESIS
from ledger.checkpoints import NO_SEAL, BadCheckpoint, Checkpoint, VerifierKey, note_hash, signers
from ledger.lines import (
    END,
    KEYS,
    UNSEALED,
    header_in,
    last_line,
    read_event_line,
    read_seal,
    segment_files,
    segments_in,
)
from ledger.merkle import Frontier, folded
from ledger.seals import Seal

_GENESIS = GENESIS.hex()
_RUN = tuple[str, str, int, str, int, str]
_CALLS_PER_BUCKET = 50_000
_sha256 = hashlib.sha256


class Suspicious(Exception):
    """Something does not hold. Says roughly where; `ledger.diagnosing` says what."""


@dataclass(frozen=True, slots=True)
class Held:
    """What was verified. `checkpoint` is the last one."""

    events: int
    seals: int
    unsealed: int
    checkpoint: str | None


def read_keys(folder: Path) -> tuple[str, list[VerifierKey]]:
    """(origin, keys). Raises Suspicious."""
    try:
        found: dict[str, Any] = json.loads((folder / KEYS).read_bytes())
        return str(found["origin"]), [VerifierKey.parse(each) for each in found["verifier_keys"]]
    except (OSError, ValueError, KeyError, TypeError, BadCheckpoint):
        raise Suspicious(KEYS) from None


def read_end(folder: Path) -> dict[str, int]:
    """What the end of a whole export says. Raises Suspicious."""
    try:
        found: dict[str, Any] = json.loads((folder / END).read_bytes())
        return {name: int(found[name]) for name in ("events", "seals", "unsealed", "settled")}
    except (OSError, ValueError, KeyError, TypeError):
        raise Suspicious(END) from None


def verify(
    folder: Path,
    trusted: Checkpoint | None = None,
    *,
    processes: int | None = None,
    done: Callable[[int, int], None] = lambda done, total: None,
) -> Held:
    """Verify an export; with `trusted`, a checkpoint that was kept elsewhere, also that the ledger goes on from there.

    Raises Suspicious. `done` is told how many sealed events of how many were verified.
    """
    try:
        return _verify(folder, trusted, processes, done)
    except FileNotFoundError as problem:
        raise Suspicious(Path(str(problem.filename)).name) from None


def _verify(folder: Path, trusted: Checkpoint | None, processes: int | None, done: Callable[[int, int], None]) -> Held:
    end = read_end(folder)
    origin, keys = read_keys(folder)
    count = segments_in(folder)
    buckets = max(1, end["events"] // _CALLS_PER_BUCKET)
    workers = min(processes or os.cpu_count() or 1, max(count, 1))
    with ExitStack() as stack:
        runs = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="counterseal-")))
        tasks = [(folder, number, origin, keys, runs, buckets, trusted) for number in range(count)]
        events = 0
        found: list[_Verified] = []
        for verified in _each(stack, workers, verify_segment, tasks):
            found.append(verified)
            events += verified.events
            done(min(events, end["events"]), end["events"])
        unsealed = _unsealed(folder, runs, buckets, count)
        for _ in _each(stack, workers, _chained, [(runs, bucket) for bucket in range(buckets)]):
            pass
    last = max(found, key=lambda each: each.seal, default=None)
    seals = 0 if last is None else last.seal
    if (events, seals, unsealed) != (end["events"], end["seals"], end["unsealed"]):
        raise Suspicious(END)
    if trusted is not None and not any(each.met for each in found):
        raise Suspicious("the trusted checkpoint")
    return Held(events, seals, unsealed, None if last is None else last.checkpoint)


def _each(stack: ExitStack, workers: int, work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> Any:
    if workers == 1:
        yield from (work(*task) for task in tasks)
        return
    pool = stack.enter_context(ProcessPoolExecutor(workers))
    try:
        for future in as_completed([pool.submit(work, *task) for task in tasks]):
            yield future.result()
    finally:
        pool.shutdown(cancel_futures=True)


@dataclass(frozen=True, slots=True)
class _Verified:
    events: int
    seal: int
    checkpoint: str
    met: bool
    """Whether the trusted checkpoint is among its seals."""


def verify_segment(
    folder: Path,
    number: int,
    origin: str,
    keys: Sequence[VerifierKey],
    runs: Path,
    buckets: int,
    trusted: Checkpoint | None,
) -> _Verified:
    """Verify one segment, given the last seal before it. Raises Suspicious."""
    held = _last_seal(folder, number - 1)
    signer = _next_signer(held, keys)
    met, events, any_seal = False, 0, False
    calls: dict[str, _Run] = {}
    seals, lines, bodies = segment_files(folder, number)
    with seals.open("rb") as to_seals, lines.open("rb") as to_lines, _Bodies(bodies) as to_bodies:
        for line in to_seals:
            seal, checkpoint = _follows(line, held, origin, signer)
            frontier = Frontier(0, ()) if held is None else Frontier(held.size, held.peaks)
            leaves = _leaves(to_lines, to_bodies, seal.spans, calls)
            frontier.extend(leaves)
            if (frontier.size, frontier.root) != (seal.size, checkpoint.root):
                raise Suspicious(f"seal {seal.number}")
            if trusted is not None and trusted.number == seal.number:
                met = checkpoint.text == trusted.text
                if not met:
                    raise Suspicious("the trusted checkpoint")
            events, any_seal = events + len(leaves), True
            held, signer = seal, checkpoint.next_key or signer
        if to_lines.read(1) or not to_bodies.ended:
            raise Suspicious(lines.name)
    if held is None or not any_seal:
        raise Suspicious(seals.name)
    _write_runs(calls, runs, buckets, number)
    return _Verified(events, held.number, held.checkpoint, met)


def _last_seal(folder: Path, number: int) -> Seal | None:
    if number < 0:
        return None
    try:
        return read_seal(last_line(segment_files(folder, number)[0]))
    except ValueError:
        raise Suspicious(f"the last seal of segment {number}") from None


def _next_signer(held: Seal | None, keys: Sequence[VerifierKey]) -> VerifierKey:
    """Which key signs the next seal: the one that the last one names, or else the one that signed it."""
    try:
        if held is None:
            return keys[0]
        return held.says.next_key or signers(held.checkpoint, keys)[0]
    except (BadCheckpoint, IndexError):
        raise Suspicious("the keys") from None


def _follows(line: bytes, held: Seal | None, origin: str, signer: VerifierKey) -> tuple[Seal, Checkpoint]:
    """The seal of a line, that follows another one. Raises Suspicious."""
    try:
        seal = read_seal(line)
        checkpoint = seal.says
        signed = signers(seal.checkpoint, [signer])
    except (ValueError, BadCheckpoint):
        raise Suspicious("a seal") from None
    number, previous = (1, NO_SEAL) if held is None else (held.number + 1, note_hash(held.checkpoint))
    said = (checkpoint.origin, checkpoint.number, checkpoint.previous, checkpoint.size, checkpoint.root)
    if not signed or said != (origin, number, previous, seal.size, folded(seal.peaks)):
        raise Suspicious(f"seal {number}")
    if len(seal.peaks) != seal.size.bit_count() or seal.number != number:
        raise Suspicious(f"seal {number}")
    return seal, checkpoint


@dataclass(slots=True)
class _Run:
    """Events of one call that follow each other: where it begins and where it ends, hashes in hexadecimal."""

    tenant: str
    first: int
    previous: str
    last: int
    hash: str


class _Bodies:
    """The bytes of a file, one piece after the other."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._at = 0

    def __enter__(self) -> "_Bodies":
        with self._path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            # An empty file cannot be mapped.
            self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else b""
        return self

    def __exit__(self, *_: object) -> None:
        if isinstance(self._bytes, mmap.mmap):
            self._bytes.close()

    def read(self, size: int) -> bytes:
        """The next bytes; fewer where the file ends."""
        at = self._at
        self._at = at + size
        return self._bytes[at : at + size]

    @property
    def ended(self) -> bool:
        return self._at == len(self._bytes)


def _leaves(lines: BinaryIO, bodies: _Bodies, spans: Sequence[tuple[int, int]], calls: dict[str, _Run]) -> list[bytes]:
    """The leaves of the next events, which have these ids. Raises Suspicious."""
    count = sum(last - first + 1 for first, last in spans)
    ids = chain.from_iterable(range(first, last + 1) for first, last in spans)
    leaves: list[bytes] = []
    read = bodies.read
    for line, wanted in zip(islice(lines, count), ids, strict=False):
        try:
            stated = read_event_line(line)
        except ValueError:
            raise Suspicious(f"event {wanted}") from None
        event = stated.event
        leaf = _sha256(b"\x00" + header_in(line)).digest()
        hexed = leaf.hex()
        if hexed != stated.hash or stated.id != wanted:
            raise Suspicious(f"event {wanted}")
        if stated.size is not None and _sha256(read(stated.size)).hexdigest() != event.body:
            raise Suspicious(f"event {wanted}")
        run = calls.get(event.request_id)
        if run is None:
            calls[event.request_id] = _Run(event.tenant, event.n, event.previous, event.n, hexed)
        elif event.previous == run.hash and event.n == run.last + 1 and event.tenant == run.tenant:
            run.last, run.hash = event.n, hexed
        else:
            raise Suspicious(f"event {wanted}")
        leaves.append(leaf)
    if len(leaves) != count:
        raise Suspicious("the last events")
    return leaves


def _unsealed(folder: Path, runs: Path, buckets: int, number: int) -> int:
    """Verify what is not sealed yet, as far as that can be: how many events. Raises Suspicious."""
    calls: dict[str, _Run] = {}
    settled, count = read_end(folder)["settled"], 0
    with (folder / f"{UNSEALED}.jsonl").open("rb") as lines, _Bodies(folder / f"{UNSEALED}.bin") as bodies:
        while line := lines.readline():
            event_id = _event_id(line)
            if event_id <= settled:
                raise Suspicious(f"event {event_id}")
            lines.seek(-len(line), os.SEEK_CUR)
            count += len(_leaves(lines, bodies, [(event_id, event_id)], calls))
        if not bodies.ended:
            raise Suspicious("events that are not sealed")
    _write_runs(calls, runs, buckets, number)
    return count


def _event_id(line: bytes) -> int:
    try:
        return read_event_line(line).id
    except ValueError:
        raise Suspicious("an event that is not sealed") from None


def _write_runs(calls: dict[str, _Run], runs: Path, buckets: int, segment: int) -> None:
    """Sort the runs by call, so that each call's can be put together without having all of them in memory."""
    by_bucket: list[list[bytes]] = [[] for _ in range(buckets)]
    for request_id, run in calls.items():
        line = msgspec.json.encode([request_id, run.tenant, run.first, run.previous, run.last, run.hash])
        by_bucket[zlib.crc32(request_id.encode()) % buckets].append(line)
    for bucket, found in enumerate(by_bucket):
        if found:
            (runs / f"{bucket:06}-{segment:06}").write_bytes(b"\n".join(found))


def _chained(runs: Path, bucket: int) -> None:
    """Whether the runs of each call follow each other, from its first event on. Raises Suspicious."""
    heads: dict[str, tuple[str, int, str]] = {}
    for path in sorted(runs.glob(f"{bucket:06}-*")):
        with path.open("rb") as file:
            for line in file:
                request_id, tenant, first, previous, last, hash_ = msgspec.json.decode(line, type=_RUN)
                before = heads.get(request_id, (tenant, 0, _GENESIS))
                if (tenant, first, previous) != (before[0], before[1] + 1, before[2]):
                    raise Suspicious(f"the events of {request_id}")
                heads[request_id] = (tenant, last, hash_)
