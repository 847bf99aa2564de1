"""Checkpoints outside of the database: a file that only grows, and witnesses that cosign."""

import json
import os
from collections.abc import Iterable
from pathlib import Path

from ledger.checkpoints import BadCheckpoint, Checkpoint


class CheckpointFileBroken(Exception):
    """The file cannot be read or written as one of checkpoints. The text is ours."""


_LOOKED_AT = 262_144


def newest(lines: Iterable[bytes], path: Path) -> Checkpoint | None:
    """The checkpoint with the highest number; None without any. Raises CheckpointFileBroken for a line that has none,
    save one that was cut off and gone on after."""
    found: list[Checkpoint] = []
    broken = False
    for line in lines:
        try:
            found.append(Checkpoint.parse(json.loads(line)["checkpoint"]))
            broken = False
        except (ValueError, KeyError, TypeError, AttributeError, BadCheckpoint):
            broken = True
    if broken:
        raise CheckpointFileBroken(f"{path} does not end with a checkpoint")
    return max(found, key=lambda each: each.number, default=None)


class CheckpointFile:
    """A JSON line per checkpoint, `{"checkpoint": …}`; best where this host can append and not rewrite."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(self) -> Checkpoint | None:
        """The newest of the last ones that were written whole: a cosignature may come after a newer checkpoint.

        Raises CheckpointFileBroken.
        """
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                begin = max(0, file.tell() - _LOOKED_AT)
                file.seek(begin)
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise CheckpointFileBroken(f"{self._path} cannot be read: {problem.strerror}") from None
        # The first of them may be the rest of a line.
        return newest([line for line in lines[begin > 0 :] if line.endswith(b"\n") and line.strip()], self._path)

    def keep(self, note: str) -> None:
        """Append it, in one write that is on disk when this returns. Raises OSError."""
        line = json.dumps({"checkpoint": note}, ensure_ascii=False) + "\n"
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, _after_a_torn_line(self._path) + line.encode())
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _after_a_torn_line(path: Path) -> bytes:
    """A newline where the file was cut off in the middle of a line."""
    with path.open("rb") as file:
        if file.seek(0, os.SEEK_END) == 0:
            return b""
        file.seek(-1, os.SEEK_END)
        return b"" if file.read(1) == b"\n" else b"\n"
