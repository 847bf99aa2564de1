"""How fast the ledger is verified, against hashing alone, and appended to: `python -m tests.bench.ledger`.

Interleaved, medians and ratios of one run; what a machine does in a second it does not say. Prints a table, and writes
`artifacts/bench-ledger.json`.
"""

import asyncio
import hashlib
import json
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from ledger.diagnosing import diagnose
from ledger.lines import read_event_line, segment_files, segments_in
from ledger.records import CallRecord, Step
from ledger.verifying import verify
from schemas.events import DecisionRejected
from tests.bench.servers import migrated_database
from tests.bench.synthetic import write_export
from tests.ledger.refunds import Refund, new_binding, open_ledger

_errors = Console(stderr=True)


def hash_records(folder: Path) -> int:
    """What verifying cannot do without: each event's line and body, read and hashed."""
    count = 0
    for number in range(segments_in(folder)):
        _, lines, bodies = segment_files(folder, number)
        with lines.open("rb") as to_lines, bodies.open("rb") as to_bodies:
            for line in to_lines:
                hashlib.sha256(line).digest()
                hashlib.sha256(to_bodies.read(int(line[line.rindex(b":") + 1 : -2]))).digest()
                count += 1
    return count


def hash_bytes(folder: Path) -> None:
    """The same bytes as one stream."""
    hashed = hashlib.sha256()
    for path in sorted(folder.iterdir()):
        with path.open("rb") as file:
            while chunk := file.read(1 << 20):
                hashed.update(chunk)


def measure(rounds: int, works: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Median seconds of each, one after the other in every round."""
    took: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(rounds):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            took[name].append(time.perf_counter() - begun)
    return {name: statistics.median(each) for name, each in took.items()}


async def appends(database: str, writers: int, seconds: float) -> float:
    """Events a second, each writer on a call of its own, each event a transaction."""
    async with open_ledger(database, connections=writers * 2) as ledger:
        records = [await Refund(25_000, available=50_000, binding=new_binding()).admit(ledger) for _ in range(writers)]

        def step(record: CallRecord, now: Any) -> Step:
            event = DecisionRejected(approval_id=record.approval_id or "", because="an example")
            return Step([event])

        until = time.perf_counter() + seconds

        async def write(request_id: str) -> int:
            count = 0
            while time.perf_counter() < until:
                await ledger.calls.advance(request_id, step)
                count += 1
            return count

        return sum(await asyncio.gather(*(write(record.request_id) for record in records))) / seconds


def main(
    events: Annotated[int, typer.Option(help="How many events are verified")] = 1_000_000,
    rounds: Annotated[int, typer.Option(help="How often each is measured")] = 3,
    seconds: Annotated[float, typer.Option(help="How long is appended, each time")] = 4.0,
) -> None:
    cores = os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "export"
        with Progress(console=_errors, transient=True, disable=not _errors.is_terminal) as shown:
            task = shown.add_task("Writing an export", total=events)
            write_export(folder, events, lambda done: shown.update(task, completed=done))
        size = sum(path.stat().st_size for path in folder.iterdir())
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        took = measure(
            rounds,
            {
                "hashlib, the same records, one process": lambda: hash_records(folder),
                "hashlib, the same bytes as one stream": lambda: hash_bytes(folder),
                "verify, one process": lambda: verify(folder, processes=1),
                f"verify, {cores} processes": lambda: verify(folder, processes=cores),
            },
        )
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        each_held = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        begun = time.perf_counter()
        _damage(folder)
        findings = diagnose(folder)
        diagnosed = time.perf_counter() - begun
    written = asyncio.run(_appended(rounds, seconds))
    base = took["hashlib, the same records, one process"]
    table = Table("", "seconds", "events/s", "of hashing the records")
    for name, each in took.items():
        table.add_row(name, f"{each:.2f}", f"{events / each:,.0f}", f"{base / each:.2f}")
    table.add_row("finding one altered bit", f"{diagnosed:.2f}", f"{events / diagnosed:,.0f}", "")
    for writers, rate in written.items():
        table.add_row(f"appending, {writers} writers", "", f"{rate:,.0f}", f"{rate / written[1]:.2f} x one writer")
    Console().print(table)
    Console().print(
        f"{events:,} events, {size / 1e6:,.0f} MB; memory grew by {held / 1024:.0f} MB, each process had"
        f" {each_held / 1024:.0f} MB; found: {findings[0].what}"
    )
    result = {"events": events, "bytes": size, "seconds": took, "diagnosed": diagnosed, "appends": written}
    artifacts = Path("artifacts")
    artifacts.mkdir(exist_ok=True)
    (artifacts / "bench-ledger.json").write_text(json.dumps(result, indent=2))
    if base / took[f"verify, {cores} processes"] < 0.6:
        sys.exit("verifying is slower than 0.6 of hashing")


async def _appended(rounds: int, seconds: float) -> dict[int, float]:
    rates: dict[int, list[float]] = {1: [], 16: []}
    async with migrated_database() as database:
        for _ in range(rounds):
            for writers, found in rates.items():
                found.append(await appends(database, writers, seconds))
    return {writers: statistics.median(found) for writers, found in rates.items()}


def _damage(folder: Path) -> None:
    """One bit of one body in the middle."""
    _, lines, bodies = segment_files(folder, segments_in(folder) // 2)
    with lines.open("rb") as file:
        size = read_event_line(file.readline()).size or 1
    with bodies.open("r+b") as file:
        file.seek(size // 2)
        byte = file.read(1)[0]
        file.seek(size // 2)
        file.write(bytes([byte ^ 1]))


if __name__ == "__main__":
    typer.run(main)
