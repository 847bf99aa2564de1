"""Writing the ledger out: all that is needed to verify it anywhere, without a key and without the database."""

import json
import os
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from ledger.chain import EventRow
from ledger.database import Connection, Pool
from ledger.lines import (
    END,
    KEYS,
    SEGMENT,
    UNSEALED,
    event_line,
    last_line,
    missing_line,
    read_seal,
    seal_line,
    segment_files,
    segments_in,
)
from ledger.queries import load
from ledger.seals import Seal, ranges
from schemas.canonical import canonical

_SQL = load("seals")
_SEALS_AT_ONCE = 100


class OtherLedger(Exception):
    """The folder holds the export of another ledger, or something else. The text is ours."""


class Export:
    """One export into a folder. It goes on where another one stopped, after the last segment that was finished."""

    def __init__(self, pool: Pool, folder: Path, done: Callable[[int, int], None] = lambda done, total: None) -> None:
        """`done` is told how many sealed events of how many there are in the folder."""
        self._pool = pool
        self._folder = folder
        self._done = done

    async def write(self) -> dict[str, int]:
        """Write what is not there yet, as of one moment: how many `events` are sealed, `seals`, and `unsealed` events.

        Raises OtherLedger, and OSError when the folder cannot be written.
        """
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            await self._keys(connection)
            (self._folder / END).unlink(missing_ok=True)
            state = await connection.fetchrow(_SQL["state"])
            if state is None:
                raise OtherLedger("the ledger has lost its name")
            seals = await self._sealed(connection, state["events"])
            unsealed = await self._unsealed(connection)
        said = {"events": state["events"], "seals": seals, "unsealed": unsealed, "settled": state["settled"]}
        _write(self._folder / END, canonical({**said, "at": state["now"].isoformat()}) + b"\n")
        return {name: said[name] for name in ("events", "seals", "unsealed")}

    async def _keys(self, connection: Connection) -> None:
        origin = await connection.fetchval(_SQL["origin"])
        keys = [row["verifier_key"] for row in await connection.fetch(_SQL["verifier_keys"])]
        path = self._folder / KEYS
        if path.exists():
            try:
                there = json.loads(path.read_bytes())["origin"]
            except (ValueError, KeyError, TypeError):
                there = None
            if there != origin:
                raise OtherLedger(f"{self._folder} holds the export of another ledger")
        elif any(self._folder.iterdir()):
            raise OtherLedger(f"{self._folder} is not empty and holds no export")
        _write(path, canonical({"origin": origin, "verifier_keys": keys}) + b"\n")

    async def _sealed(self, connection: Connection, total: int) -> int:
        """What is not in a finished segment: the number of the last seal."""
        number, last = _finished(self._folder)
        written = 0 if last is None else last.size
        count = 0 if last is None else last.number
        with Segments(self._folder, number) as segments:
            async for seal in _seals(connection, count):
                rows = {row["id"]: row for row in await connection.fetch(_SQL["events_in"], ranges(seal.spans))}
                segments.add(seal, rows)
                written, count = written + len(rows), seal.number
                self._done(min(written, total), total)
        return count

    async def _unsealed(self, connection: Connection) -> int:
        count = 0
        # Where there are more than are sealed, some are in places where all should be.
        query = _SQL["unsealed_events"] if await connection.fetchval(_SQL["is_settled"]) else _SQL["never_sealed"]
        with ExitStack() as stack:
            lines = stack.enter_context((self._folder / f"{UNSEALED}.jsonl").open("wb"))
            bodies = stack.enter_context((self._folder / f"{UNSEALED}.bin").open("wb"))
            async for row in connection.cursor(query, prefetch=500):
                event = EventRow.of(row)
                lines.write(event_line(event, row["id"]))
                bodies.write(event.body or b"")
                count += 1
            _flush(lines, bodies)
        return count


class Segments:
    """The files of seals, events and bodies, from segment `number` on; what was there of them is written anew."""

    def __init__(self, folder: Path, number: int) -> None:
        self._folder = folder
        self._number = number
        self._count = 0
        self._files: tuple[BinaryIO, ...] = ()
        for there in range(number, segments_in(folder)):
            for path in segment_files(folder, there):
                path.unlink(missing_ok=True)

    def __enter__(self) -> "Segments":
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def add(self, seal: Seal, rows: Mapping[int, Any]) -> None:
        if not self._files:
            self._files = tuple(path.open("wb") for path in segment_files(self._folder, self._number))
        seals, lines, bodies = self._files
        for first, last in seal.spans:
            for each in range(first, last + 1):
                row = rows.get(each)
                if row is None:
                    lines.write(missing_line(each))
                else:
                    event = EventRow.of(row)
                    lines.write(event_line(event, each))
                    bodies.write(event.body or b"")
                self._count += 1
        seals.write(seal_line(seal))
        if self._count >= SEGMENT:
            self._close()
            self._number += 1

    def _close(self) -> None:
        _flush(*self._files)
        for file in self._files:
            file.close()
        self._files, self._count = (), 0


async def _seals(connection: Connection, number: int) -> AsyncGenerator[Seal]:
    """The seals after this one."""
    while rows := await connection.fetch(_SQL["seals_between"], number, _SEALS_AT_ONCE):
        for row in rows:
            yield Seal.of(row)
        number = rows[-1]["number"]


def _finished(folder: Path) -> tuple[int, Seal | None]:
    """How many segments are finished, and the last seal in them. One is when the next one was begun."""
    number = max(0, segments_in(folder) - 1)
    if number == 0:
        return 0, None
    try:
        return number, read_seal(last_line(segment_files(folder, number - 1)[0]))
    except ValueError:
        raise OtherLedger(f"{folder} holds an export that was altered: write it anew, elsewhere") from None


def _write(path: Path, content: bytes) -> None:
    """In one step."""
    building = path.with_name(f".{path.name}")
    with building.open("wb") as file:
        file.write(content)
        _flush(file)
    building.replace(path)


def _flush(*files: BinaryIO) -> None:
    for file in files:
        file.flush()
        os.fsync(file.fileno())
