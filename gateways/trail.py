"""The trail of one step of a call: what it did outside, kept only as long as the step runs.

Whoever runs a step follows it (`followed`); the exchanges in it then leave their accounts here. Without one they leave
nothing.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import cache

from schemas.diagnostics import BOUNDARIES, BoundaryName, ExchangeAccount, Mark, Outcome, Purpose
from schemas.effects import Attempt, Inspection

_current: ContextVar["Trail | None"] = ContextVar("trail", default=None)


class Trail:
    """Marks and exchanges, in order. `fingerprint` makes the one-way fingerprint of a body."""

    def __init__(self, fingerprint: Callable[[bytes], str]) -> None:
        self.fingerprint = fingerprint
        self.began_at = datetime.now(UTC)
        self.purpose: Purpose = "facts"
        self.outcome: Outcome | None = None
        self.problem: str | None = None
        self._began = time.monotonic()
        self._marks: dict[BoundaryName, int] = {}
        self._accounts: list[Callable[[], ExchangeAccount]] = []

    def ended(self, account: Callable[[], ExchangeAccount]) -> None:
        """An exchange ended. Its account is made when it is asked for, which it is not of a step that ends well."""
        self._accounts.append(cache(account))

    @property
    def exchanges(self) -> list[ExchangeAccount]:
        """In the order in which they ended."""
        return [account() for account in self._accounts]

    @property
    def elapsed_ms(self) -> int:
        return round((time.monotonic() - self._began) * 1000)

    def mark(self, *boundaries: BoundaryName) -> None:
        """The action has passed these boundaries."""
        for boundary in boundaries:
            self._marks.setdefault(boundary, self.elapsed_ms)

    def conclude(self, outcome: Attempt | Inspection) -> None:
        """What was made of the exchanges about the effect."""
        self.outcome, self.problem = outcome.kind, outcome.exchange.problem
        if outcome.kind != "unknown" and outcome.exchange.reached == "response_received":
            self.mark("result_returned")

    @contextmanager
    def during(self, purpose: Purpose) -> Generator[None]:
        """What exchanges are for meanwhile."""
        before, self.purpose = self.purpose, purpose
        try:
            yield
        finally:
            self.purpose = before

    def boundaries(self) -> tuple[Mark, ...]:
        """What the action itself passed: its own marks, and those of the exchange that it came down to."""
        passed = dict(self._marks)
        decisive = self._decisive()
        if decisive is not None:
            offset = max(0, round((decisive.started_at - self.began_at).total_seconds() * 1000))
            for mark in decisive.marks:
                if mark.name in BOUNDARIES:
                    passed.setdefault(mark.name, offset + mark.after_ms)
        return tuple(Mark(name=name, after_ms=passed[name]) for name in BOUNDARIES if name in passed)

    def _decisive(self) -> ExchangeAccount | None:
        """Of an effect its write; otherwise the last exchange that was not made for facts."""
        own = [each for each in self.exchanges if each.purpose != "facts"]
        writes = [each for each in own if each.purpose == "effect" and each.method != "GET"]
        return (writes or own or [None])[-1]


def current() -> Trail | None:
    """The trail of the step that runs now."""
    return _current.get()


@contextmanager
def followed(trail: Trail) -> Generator[Trail]:
    """Everything in this context, tasks that it starts included, leaves its accounts on `trail`."""
    token = _current.set(trail)
    try:
        yield trail
    finally:
        _current.reset(token)
