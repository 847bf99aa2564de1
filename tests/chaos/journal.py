"""Append-only logs of JSON lines, one per process, on disk before anything follows from them."""

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = dict[str, Any]


class Journal:
    """A log that is on disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, kind: str, **fields: object) -> None:
        line = json.dumps({"kind": kind, "at": time.time(), **fields}, separators=(",", ":"))
        os.write(self._descriptor, line.encode() + b"\n")
        os.fsync(self._descriptor)


def lines(path: Path) -> Iterator[Line]:
    """The lines of a log; none when there is no such file. A last one that was cut off by a kill is left out."""
    if not path.exists():
        return
    with path.open("rb") as file:
        for raw in file:
            if raw.endswith(b"\n"):
                yield json.loads(raw)
