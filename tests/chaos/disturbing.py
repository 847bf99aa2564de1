"""What is done to the processes while they work: killed, stopped for a while, ended at once; seeded, one at a time."""

import asyncio
import random
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from tests.chaos.journal import Journal
from tests.chaos.stack import ChaosStack

KILLS: dict[str, tuple[str, signal.Signals]] = {
    "kill worker": ("worker", signal.SIGKILL),
    "kill api": ("api", signal.SIGKILL),
    "kill temporal": ("temporal", signal.SIGKILL),
    "kill sandbox": ("sandbox", signal.SIGKILL),
    # Postgres' "immediate" shutdown: every backend ends at once, and the next start recovers from the log.
    "kill postgres": ("postgres", signal.SIGQUIT),
    "kill everything": ("stack", signal.SIGKILL),
}
PAUSES = {"pause worker": "worker", "pause api": "api", "pause temporal": "temporal", "pause sandbox": "sandbox"}
DISTURBANCES = (*KILLS, *PAUSES)

_PAUSE_SECONDS = (0.5, 3.0)
# Longer than Temporal waits for a worker before it gives its work to another one: it wakes up and is not alone.
_LONG_PAUSE_SECONDS = (11.0, 14.0)
_PRESENT_SECONDS = 10
# Now and then the next thing happens before what the last one broke is up again.
_RECOVERED = 0.7


@dataclass(frozen=True)
class Disturbance:
    """One of `DISTURBANCES`: `after` seconds in which all may work (`recovered`: counted from when all is up again),
    a pause lasts for `seconds`."""

    what: str
    after: float
    recovered: bool
    seconds: float


def schedule(seed: int, *, gap: tuple[float, float], long_pauses: bool) -> Iterator[Disturbance]:
    """Pure. What happens, for ever; every kind comes once before any comes again."""
    dice = random.Random(f"disturbances/{seed}")
    while True:
        for what in dice.sample(DISTURBANCES, len(DISTURBANCES)):
            long = long_pauses and what in ("pause worker", "pause api") and dice.random() < 0.5
            seconds = dice.uniform(*(_LONG_PAUSE_SECONDS if long else _PAUSE_SECONDS))
            yield Disturbance(what, dice.uniform(*gap), dice.random() < _RECOVERED, seconds)


@dataclass(frozen=True)
class Disturber:
    """Breaks the stack's processes as the schedule says."""

    stack: ChaosStack
    journal: Journal

    async def work(self, plan: Iterator[Disturbance], done: Callable[[str], None]) -> None:
        """Until cancelled; nothing stays paused. `done` is told what was done."""
        for each in plan:
            await self.stack.until_ready()
            if each.recovered:
                await self.stack.until_answering()
            await asyncio.sleep(each.after)
            pausing = PAUSES.get(each.what)
            if await (self._pause(pausing, each.seconds) if pausing else self._kill(each.what)):
                self.journal.write("disturbed", what=each.what)
                done(each.what)

    async def _kill(self, what: str) -> bool:
        process, number = KILLS[what]
        return await self._signal(process, number)

    async def _signal(self, process: str, number: signal.Signals) -> bool:
        """Send it as soon as there is such a process, which may just be on its way back."""
        for _ in range(_PRESENT_SECONDS * 10):
            if self.stack.signal(process, number):
                return True
            await asyncio.sleep(0.1)
        return False

    async def _pause(self, process: str, seconds: float) -> bool:
        if not await self._signal(process, signal.SIGSTOP):
            return False
        try:
            await asyncio.sleep(seconds)
        finally:
            self.stack.signal(process, signal.SIGCONT)
        return True
