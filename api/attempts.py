"""Bounds on guessing passwords: a sliding window in memory, per account, per peer and for both together."""

import ipaddress
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from math import ceil

WINDOW_SECONDS = 300
# Someone who mistypes stays far below the first; the others slow down one guesser with many names, and many with one.
_PER_ACCOUNT_AND_PEER = 5
_PER_PEER = 30
_PER_ACCOUNT = 60


class SignInAttempts:
    """Counts attempts before a password is looked at. Holds at most `capacity` keys; the longest unused go first."""

    def __init__(self, *, capacity: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
        self._capacity = capacity
        self._clock = clock
        self._attempts: OrderedDict[tuple[str, str], deque[float]] = OrderedDict()

    def begin(self, username: str, peer: str) -> int | None:
        """Count an attempt; or, when there were too many, the seconds to wait before the next one."""
        now = self._clock()
        limits = _limits(username, peer)
        waits = [self._wait(key, limit, now) for key, limit in limits]
        if any(waits):
            return ceil(max(waits))
        for key, _ in limits:
            self._attempts.setdefault(key, deque()).append(now)
            self._attempts.move_to_end(key)
        while len(self._attempts) > self._capacity:
            self._attempts.popitem(last=False)
        return None

    def succeeded(self, username: str, peer: str) -> None:
        """Forget the failures of a person who got in."""
        (key, _), *_ = _limits(username, peer)
        self._attempts.pop(key, None)

    def _wait(self, key: tuple[str, str], limit: int, now: float) -> float:
        times = self._attempts.get(key)
        if times is None:
            return 0
        while times and times[0] <= now - WINDOW_SECONDS:
            times.popleft()
        return times[0] + WINDOW_SECONDS - now if len(times) >= limit else 0


def _limits(username: str, peer: str) -> list[tuple[tuple[str, str], int]]:
    account, place = username.casefold(), network(peer)
    return [((account, place), _PER_ACCOUNT_AND_PEER), (("", place), _PER_PEER), ((account, ""), _PER_ACCOUNT)]


def network(peer: str) -> str:
    """A peer's address; of IPv6 the /64, since one machine has all of it."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if address.version == 4:
        return peer
    return str(ipaddress.ip_network((address, 64), strict=False))
