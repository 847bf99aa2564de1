"""Checkpoints outside of the database: a file that only grows, and witnesses that cosign."""

import json
import os
from pathlib import Path

from ledger.checkpoints import BadCheckpoint, Checkpoint


class CheckpointFileBroken(Exception):
    """The file cannot be read or written as one of checkpoints. The text is ours."""


class CheckpointFile:
    """A JSON line per checkpoint, `{"checkpoint": …}`; best where this host can append and not rewrite."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def last(self) -> Checkpoint | None:
        """The last one that was written whole. Raises CheckpointFileBroken."""
        try:
            with self._path.open("rb") as file:
                file.seek(0, os.SEEK_END)
                # Notes are far shorter; two of them are in here.
                file.seek(max(0, file.tell() - 65_536))
                lines = file.read().splitlines(keepends=True)
        except FileNotFoundError:
            return None
        except OSError as problem:
            raise CheckpointFileBroken(f"{self._path} cannot be read: {problem.strerror}") from None
        whole = [line for line in lines if line.endswith(b"\n") and line.strip()]
        if not whole:
            return None
        try:
            return Checkpoint.parse(json.loads(whole[-1])["checkpoint"])
        except (ValueError, KeyError, TypeError, AttributeError, BadCheckpoint):
            raise CheckpointFileBroken(f"{self._path} does not end with a checkpoint") from None

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
