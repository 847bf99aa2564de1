"""CPU time and memory of processes and all that they started."""

from collections.abc import Iterator, Sequence

import psutil


def tree(pids: Sequence[int]) -> Iterator[psutil.Process]:
    """These processes and their descendants, each once."""
    seen: set[int] = set()
    for pid in pids:
        root = psutil.Process(pid)
        for process in (root, *root.children(recursive=True)):
            if process.pid not in seen:
                seen.add(process.pid)
                yield process


def cpu_seconds(pids: Sequence[int]) -> dict[int, float]:
    """CPU seconds of each process of these trees, by its pid."""
    found: dict[int, float] = {}
    for process in tree(pids):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        found[process.pid] = times.user + times.system
    return found


class CpuMeter:
    """CPU seconds of process trees since it was made."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self._before = cpu_seconds(pids)

    def seconds(self) -> float:
        return sum(spent - self._before.get(pid, 0.0) for pid, spent in cpu_seconds(self._pids).items())


def memory(pids: Sequence[int]) -> int:
    """Bytes that these process trees take; what several share counts once (proportional set size)."""
    total = 0
    for process in tree(pids):
        try:
            total += process.memory_full_info().pss
        except psutil.NoSuchProcess:
            continue
    return total
