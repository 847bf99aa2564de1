"""Dies on purpose, for the fault machine alone: at the points that a setting names, with the chance that it gives.

`intent.after=0.02,send.after=0.5*3,seed=7,log=/tmp/crashes` kills the process by SIGKILL in 2 % of the passages of
`intent.after`, and in half of those of `send.after` until that has happened three times. Each death is appended to
`log` first, which all processes share. Empty: nothing ever happens.
"""

import os
import random
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

import structlog

from activities.services import CrashPoint
from runtime.settings import SettingsError

_log = structlog.get_logger()
_POINTS: dict[str, CrashPoint] = {point: point for point in get_args(CrashPoint)}


@dataclass(frozen=True, slots=True)
class Chance:
    """`probability` of one passage, at most `times` deaths over all processes (None: no bound)."""

    probability: float
    times: int | None = None


@dataclass(frozen=True, slots=True)
class CrashPlan:
    """What the setting says."""

    chances: Mapping[CrashPoint, Chance] = field(default_factory=dict[CrashPoint, Chance])
    seed: int = 0
    log: Path | None = None


def parse(text: str) -> CrashPlan:
    """Pure. Read the setting. Raises SettingsError."""
    chances: dict[CrashPoint, Chance] = {}
    seed, log = 0, None
    for part in (each.strip() for each in text.split(",")):
        name, equals, value = part.partition("=")
        point = _POINTS.get(name)
        if point is not None and equals:
            chances[point] = _chance(point, value)
        elif name == "seed" and value.isdigit():
            seed = int(value)
        elif name == "log" and value:
            log = Path(value)
        elif part:
            raise SettingsError(
                f"COUNTERSEAL_CRASH_POINTS cannot be read at {name!r}; known are {', '.join(_POINTS)}, seed and log"
            )
    if any(chance.times is not None for chance in chances.values()) and log is None:
        raise _wrong("a number of times needs a log to count in")
    return CrashPlan(chances, seed, log)


def _chance(point: CrashPoint, text: str) -> Chance:
    probability, star, times = text.partition("*")
    try:
        chance = Chance(float(probability), int(times) if star else None)
    except ValueError:
        raise SettingsError(
            f"COUNTERSEAL_CRASH_POINTS: {point} needs a chance as in {point}=0.02 or {point}=0.02*3"
        ) from None
    if not 0 <= chance.probability <= 1 or (chance.times is not None and chance.times < 0):
        raise SettingsError(
            f"COUNTERSEAL_CRASH_POINTS: {point}: a chance is between 0 and 1, a number of times not negative"
        )
    return chance


def _wrong(problem: str) -> SettingsError:
    return SettingsError(f"COUNTERSEAL_CRASH_POINTS: {problem}")


def crashes(log: Path) -> list[CrashPoint]:
    """The points at which processes died, in order, by their log."""
    if not log.exists():
        return []
    names = [line.partition(" ")[0] for line in log.read_text(encoding="utf-8").splitlines()]
    return [_POINTS[name] for name in names if name in _POINTS]


def crash_at(text: str) -> Callable[[CrashPoint], None]:
    """What to call at each crash point, by the setting `text`. Raises SettingsError."""
    plan = parse(text)
    if not plan.chances:
        return lambda point: None
    _log.warning("crash_points_on", points=sorted(plan.chances))
    # Another stream in every process, or each would die at the same passage as the one before.
    dice = random.Random(f"{plan.seed}/{len(crashes(plan.log)) if plan.log else 0}/{os.getpid()}")  # noqa: S311

    def reached(point: CrashPoint) -> None:
        chance = plan.chances.get(point)
        if chance is None or dice.random() >= chance.probability:
            return
        if plan.log is not None:
            if chance.times is not None and crashes(plan.log).count(point) >= chance.times:
                return
            _note(plan.log, point)
        os.kill(os.getpid(), signal.SIGKILL)

    return reached


def _note(log: Path, point: CrashPoint) -> None:
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{point} {os.getpid()}\n".encode())
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
