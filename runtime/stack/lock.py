"""One stack per data folder."""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager

import psutil

from runtime.stack.child import recorded_process
from runtime.stack.errors import StackError
from runtime.stack.files import DataFolder


@contextmanager
def exclusive(folder: DataFolder) -> Generator[None]:
    """Hold the folder's lock; the file names the holder as pid files do. Raises StackError when it is held.

    The kernel lets go of the lock when the holder dies, however that happens; children do not inherit it.
    """
    with os.fdopen(os.open(folder.lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = recorded_process(folder.lock)
            who = "another process" if holder is None else f"process {holder.pid}"
            raise StackError(
                f"{who} already runs a stack on {folder.root}: stop it first, or choose another folder with --data"
            ) from None
        file.truncate()
        json.dump({"pid": os.getpid(), "started": psutil.Process().create_time()}, file)
        file.flush()
        yield
