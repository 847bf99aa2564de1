"""The fault machine: a loaded stack that is broken while it works, healed, and then judged by its evidence."""

import asyncio
import contextlib
import json
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import asyncpg
import yaml

from policy.load import DEFAULT_POLICY
from runtime.crashing import crashes
from runtime.stack.files import DataFolder
from tests.chaos.checking import Violation, check
from tests.chaos.disturbing import Disturber, schedule
from tests.chaos.evidence import Evidence
from tests.chaos.journal import Journal
from tests.chaos.load import Folder
from tests.chaos.outside import Outside
from tests.chaos.plan import LATE_SECONDS, RUN_LIMIT
from tests.chaos.report import CRASH_POINTS, Report
from tests.chaos.stack import ChaosStack, StackFailure

ABSENCE_SECONDS = 2 * LATE_SECONDS
REVIEW_SECONDS = 15
EXCHANGE_SECONDS = 2
# An activity that was lost with its worker is missed after a minute, and what follows may be lost with the next one.
_SWEEP_SECONDS = 150
_REST_SECONDS = 150
_LOOK_SECONDS = 60
_STILL_MOVING = """
SELECT count(*) FROM calls c
WHERE c.status = 'in_progress' OR (c.status = 'outcome_unknown' AND c.review IS NULL)
   OR (c.status = 'pending_approval' AND EXISTS (SELECT FROM decisions d WHERE d.request_id = c.request_id))
   OR (c.status = 'executed' AND c.remote_id = ANY ($1::text[]))
"""

Say = Callable[[str], None]


@dataclass(frozen=True)
class Size:
    """How large a run is: calls to send at least, seconds that it may send them for."""

    calls: int
    seconds: float
    seed: int

    @property
    def large(self) -> bool:
        """Large enough for what takes long, and for every kind of fault."""
        return self.calls >= 300

    @property
    def gap(self) -> tuple[float, float]:
        """Seconds between disturbances: a small run has to have them all in its short time."""
        return (2.0, 8.0) if self.large else (0.5, 2.0)

    @property
    def crashes(self) -> int:
        """How often a process dies at each crash point, at most."""
        return 1 + self.calls // 250

    @property
    def refunds_per_hour(self) -> int:
        """A limit that a large run reaches towards its end, and a small one never."""
        return max(500, round(0.4 * self.calls))


def crash_points(size: Size, log: Path) -> str:
    """The setting: every point, likely enough to be reached its number of times well within the run."""
    chance = min(0.3, 4 * size.crashes / size.calls)
    points = [f"{point}={chance:.4f}*{size.crashes}" for point in CRASH_POINTS]
    return ",".join([*points, f"seed={size.seed}", f"log={log}"])


_MUCH = 10**9
_DAY = "24h"


def policy_for(size: Size) -> str:
    """The default policy with a run's limits, and with a hold that expires while it lasts. All of it happens within
    minutes: what the policy bounds for everyone together is much more than a run comes to."""
    policy = yaml.safe_load(DEFAULT_POLICY.read_text(encoding="utf-8"))
    refund = policy["tools"]["issue_refund"]
    sizes = {"refunds_per_run": RUN_LIMIT, "refunds_per_hour": size.refunds_per_hour}
    for limit in refund["limits"]:
        if limit["name"] in sizes:
            limit["max"] = sizes[limit["name"]]
        elif limit["per"] in ("tool", "tenant"):
            # The longer window has more room: a limit that another one always meets first is no policy.
            limit["max"] = 2 * _MUCH if limit["window"] == _DAY else _MUCH
    refund["breaker"]["max"] = size.refunds_per_hour + 1
    policy["defaults"]["parked"] = {"per_agent": size.calls, "per_tenant": size.calls}
    for rule in refund["rules"]:
        if rule["name"] == "fraud_flag":
            rule["deadline"] = "1m"
    return yaml.safe_dump(policy, sort_keys=False)


@dataclass
class Machine:
    """One run. `folder` gets the evidence; the stack's data are beside it in `data`."""

    size: Size
    folder: Path
    data: Path
    say: Say
    disturbed: Counter[str] = field(default_factory=Counter[str])
    problems: list[Violation] = field(default_factory=list[Violation])

    @property
    def crash_log(self) -> Path:
        return self.folder / "crashes.log"

    async def run(self) -> Report:
        """Everything, within a bounded time; whatever happens, nothing is left running."""
        began = time.monotonic()
        self.folder.mkdir(parents=True)
        policy = self.folder / "policy.yaml"
        policy.write_text(policy_for(self.size), encoding="utf-8")
        stack = ChaosStack(
            DataFolder(self.data),
            ready_file=Folder(self.folder).ready,
            output=self.folder / "stack.out",
            environment={
                "COUNTERSEAL_POLICY": str(policy),
                "COUNTERSEAL_EXCHANGE_SECONDS": str(EXCHANGE_SECONDS),
                "COUNTERSEAL_ABSENCE_SECONDS": str(ABSENCE_SECONDS),
                "COUNTERSEAL_REVIEW_SECONDS": str(REVIEW_SECONDS),
                "COUNTERSEAL_CRASH_POINTS": crash_points(self.size, self.crash_log),
            },
        )
        try:
            self.say("starting")
            await stack.start()
            keeping = asyncio.create_task(stack.keep())
            try:
                await self._break(stack)
                faults = await self._rest(stack)
            finally:
                keeping.cancel()
            await stack.stop()
        finally:
            stack.kill()
        evidence = Evidence.of(self.folder)
        return Report(
            seed=self.size.seed,
            asked=self.size.calls,
            seconds=time.monotonic() - began,
            evidence=evidence,
            faults=faults,
            disturbed=self.disturbed,
            crashes=Counter[str](crashes(self.crash_log)),
            restarts=stack.restarts,
            violations=[*self.problems, *check(evidence)],
        )

    async def _break(self, stack: ChaosStack) -> None:
        """Load it and break it until both are done; heal it, and let the agents finish what they have begun."""
        journal = Journal(self.folder / "machine.jsonl")
        plan = schedule(self.size.seed, gap=self.size.gap, long_pauses=self.size.large)
        arguments = ["--seed", self.size.seed, "--calls", self.size.calls, "--seconds", self.size.seconds]
        async with self._load("run", *arguments) as load:
            disturbing = asyncio.create_task(Disturber(stack, journal).work(plan, self._was_done))
            try:
                await self._watch(load, disturbing)
            finally:
                disturbing.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await disturbing
            await self._heal(stack)
            await self._within(load, _SWEEP_SECONDS, "the agents did not get their answers")

    async def _watch(self, load: asyncio.subprocess.Process, disturbing: "asyncio.Task[None]") -> None:
        """Until the load has ended or its time is over."""
        files, began = Folder(self.folder), time.monotonic()
        while load.returncode is None and not disturbing.done() and time.monotonic() - began < self.size.seconds:
            crashed = Counter[str](crashes(self.crash_log))
            if not Report.missing(self.disturbed, crashed):
                files.enough.touch()
            sent = files.sent.read_text() if files.sent.exists() else "0"
            done = f"{sent} calls, {self.disturbed.total()} disturbances, {crashed.total()} crashes"
            self.say(f"{time.monotonic() - began:5.0f} s  {done}")
            await asyncio.sleep(1)

    async def _heal(self, stack: ChaosStack) -> None:
        """Everything up, no fault left."""
        self.say("healing")
        await stack.until_ready()
        outside = self._outside()
        await outside.clear_faults()
        await outside.close()

    async def _rest(self, stack: ChaosStack) -> Counter[str]:
        """Wait until nothing moves any more, and take the evidence. Answers the faults that were hit."""
        self.say("the agents send everything again")
        async with self._load("sweep") as load:
            await self._within(load, _SWEEP_SECONDS, "the agents' sweep did not end")
        self.say("waiting until nothing moves")
        await stack.until_ready()
        outside = self._outside()
        try:
            await self._until_nothing_moves(outside, _REST_SECONDS)
            async with self._load("look") as load:
                await self._within(load, _LOOK_SECONDS, "the agents' last look did not end")
            await outside.record(self.folder)
            faults = await outside.faults()
        finally:
            await outside.close()
        await self._export()
        await self._compare()
        return faults

    async def _until_nothing_moves(self, outside: Outside, seconds: float) -> None:
        """Calls that are under way, or whose effect was given back and who have not heard of it."""
        end, moving = time.monotonic() + seconds, -1
        while moving and time.monotonic() < end:
            with contextlib.suppress(OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
                given_back = await outside.given_back()
                connection = await asyncpg.connect(self._info()["database"], timeout=5)
                try:
                    moving = await connection.fetchval(_STILL_MOVING, given_back)
                finally:
                    await connection.close()
            await asyncio.sleep(0.5)
        if moving:
            self.problems.append(Violation("calls were still moving", f"after {seconds:.0f} s", f"{moving} calls"))

    async def _export(self) -> None:
        out = self.folder / "ledger.jsonl"
        command = ["-m", "runtime.cli.main", "calls", "export", "--data", str(self.data), "--out", str(out)]
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.DEVNULL)
        if await process.wait() != 0:
            raise StackFailure("the ledger could not be exported")

    async def _compare(self) -> None:
        """What every projection holds after all that is what the events make it."""
        command = ["-m", "runtime.cli.main", "ledger", "rebuild", "--check", "--data", str(self.data)]
        process = await asyncio.create_subprocess_exec(sys.executable, *command, stdout=asyncio.subprocess.PIPE)
        said, _ = await process.communicate()
        if process.returncode != 0:
            self.problems.append(Violation("a projection is not what the events make it", "", said.decode().strip()))

    @contextlib.asynccontextmanager
    async def _load(self, phase: str, *arguments: object) -> AsyncGenerator[asyncio.subprocess.Process]:
        """The load generator; it does not outlive the block."""
        command = ["-m", "tests.chaos.load", phase, str(self.folder), *(str(each) for each in arguments)]
        process = await asyncio.create_subprocess_exec(sys.executable, *command)
        try:
            yield process
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _within(self, load: asyncio.subprocess.Process, seconds: float, otherwise: str) -> None:
        try:
            async with asyncio.timeout(seconds):
                status = await load.wait()
        except TimeoutError:
            self.problems.append(Violation("the load did not end", otherwise))
            return
        if status != 0:
            raise StackFailure(f"the load ended with status {status}")

    def _was_done(self, what: str) -> None:
        self.disturbed[what] += 1

    def _info(self) -> dict[str, Any]:
        return json.loads(Folder(self.folder).ready.read_text())

    def _outside(self) -> Outside:
        return Outside(self._info(), (DataFolder(self.data).keys / "sandbox_store_key").read_text().strip())


async def run(size: Size, folder: Path, say: Say) -> Report:
    """A run whose evidence goes to `folder`, which must not exist. SIGTERM ends it as Ctrl-C does."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with tempfile.TemporaryDirectory(prefix="counterseal-chaos-", ignore_cleanup_errors=True) as data:
        root = Path(data) / "data"
        return await Machine(size, folder, root, say).run()
