"""Sums over windows that slide: what calls have taken, forgotten as it leaves a window. Pure."""

from collections import deque
from collections.abc import Iterable

Key = tuple[str, str, str]
"""(tenant, tool or `*`, subject): what the ledger counts by."""
Window = tuple[int | None, str | None]
"""(seconds, or None for ever; the switch that a breaker turns off, from whose turning on it counts anew)."""


class Use:
    """What one call takes of a subject, or, negative, no longer takes. `at` is in seconds."""

    __slots__ = ("amount", "at", "count", "within")

    def __init__(self, at: float, count: int, amount: int) -> None:
        self.at = at
        self.count = count
        self.amount = amount
        self.within: list[_Sum] = []


class _Sum:
    """One window over one subject."""

    __slots__ = ("amount", "count", "seconds", "since", "uses")

    def __init__(self, seconds: int | None) -> None:
        self.seconds = seconds
        self.since = float("-inf")
        self.count = 0
        self.amount = 0
        self.uses: deque[Use] = deque()

    def slide(self, now: float) -> None:
        """Only later uses than that count."""
        if self.seconds is not None:
            self.cut(now - self.seconds)

    def cut(self, since: float) -> None:
        if since <= self.since:
            return
        self.since, uses = since, self.uses
        while uses and uses[0].at <= since:
            gone = uses.popleft()
            self.count -= gone.count
            self.amount -= gone.amount

    def has(self, use: Use) -> bool:
        return use.at > self.since


class Book:
    """Sums by subject and window. It keeps no more than is within its windows."""

    def __init__(self) -> None:
        self._sums: dict[Key, dict[Window, _Sum]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._sums

    def add(self, key: Key, windows: Iterable[Window], use: Use) -> None:
        """Uses come in the order of time, or nearly so."""
        sums = self._sums.setdefault(key, {})
        for window in windows:
            if (found := sums.get(window)) is None:
                found = sums[window] = _Sum(window[0])
            found.slide(use.at)
            found.count += use.count
            found.amount += use.amount
            if window != (None, None):
                found.uses.append(use)
            use.within.append(found)

    def read(self, key: Key, window: Window, now: float) -> tuple[int, int]:
        """(calls, minor units) that count."""
        found = self._sums.get(key, {}).get(window)
        if found is None:
            return 0, 0
        found.slide(now)
        return found.count, found.amount

    def cut(self, key: Key, window: Window, now: float) -> None:
        """Count anew from now on."""
        found = self._sums.get(key, {}).get(window)
        if found is not None:
            found.cut(now)

    def forget(self, now: float) -> None:
        """Let go of subjects of which nothing is within a window any more."""
        for key, sums in list(self._sums.items()):
            for each in sums.values():
                each.slide(now)
            if all(each.seconds is not None and not each.uses for each in sums.values()):
                del self._sums[key]


def change(use: Use, amount: int, *, live: bool = True) -> None:
    """From now on it takes that; not `live`: nothing, and it is not counted either."""
    count = use.count if live else 0
    for each in use.within:
        if each.has(use):
            each.count += count - use.count
            each.amount += amount - use.amount
    use.count, use.amount = count, amount


def release(use: Use) -> None:
    """It is given back."""
    change(use, 0, live=False)
