"""`make profile`: where the time of one free call goes, by step: samples of the API, its spans, other processes.

py-spy looks at the API's stacks while the machine is saturated; a sample belongs to the package that is nearest to what
runs. Spans are those that the API exports, in a run with one client.
"""

import json
import re
import signal
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Annotated

import psutil
import typer
from rich.console import Console
from rich.table import Table

from runtime.stack.files import DataFolder
from tests.bench.figures import p50, p99
from tests.bench.lab import CLIENTS, FREE, expect
from tests.bench.load import Plan, played
from tests.bench.processes import cpu_seconds
from tests.bench.product import Product, product

STEPS = {
    "HTTP in: FastAPI, Starlette, uvicorn": ("fastapi/", "starlette/", "uvicorn/", "api/"),
    "HTTP out: httpx, gateways": ("httpx/", "httpcore/", "anyio/", "h11/", "gateways/"),
    "Postgres: asyncpg": ("asyncpg/",),
    "ledger: statements, folds, hashes": ("ledger/",),
    "encryption": ("cryptography/", "ledger/keys.py", "runtime/codec.py"),
    "models and JSON": ("pydantic/", "pydantic_core/", "json/", "rfc8785/", "msgspec/", "schemas/"),
    "policy": ("policy/", "activities/deciding.py", "activities/reconsidering.py", "activities/counting.py"),
    "activities and tools": ("activities/", "tools/"),
    "spans and metrics": (
        "opentelemetry/",
        "runtime/telemetry.py",
        "temporalio/contrib/opentelemetry/",
        "activities/tracing.py",
        "api/tracing.py",
        "api/measuring.py",
        "ledger/counting.py",
    ),
    "logs": ("structlog/", "logging/"),
    "Temporal: the SDK's Python": ("temporalio/", "google/protobuf/", "workflows/"),
    "event loop": ("asyncio/", "uvloop/"),
}
CORE, OTHER = "Temporal: the SDK's core (Rust)", "other"
_CORE_THREADS = ("tokio-rt-worker", "workflow-proces")
"""As Linux calls them, in fifteen characters."""
# Where threads wait for work. py-spy takes them for busy where they wait without a system call of their own.
_IDLE = ("(threading.py", "(concurrent/futures/thread.py", "(queue.py", "(selectors.py")


def step_of(stack: str) -> str | None:
    """Which step a sample, frames from the outermost on, was taken in; None where a thread waits or runs no Python."""
    frames = stack.split(";")
    if not stack or any(each in frames[-1] for each in _IDLE):
        return None
    for frame in reversed(frames):
        path = re.sub(r"^.*\((.*?)(:\d+)?\)$", r"\1", frame)
        found = [
            (len(prefix), step)
            for step, prefixes in STEPS.items()
            for prefix in prefixes
            if f"/{path}".find(f"/{prefix}") >= 0
        ]
        if found:
            return max(found)[1]
    return OTHER


def by_step(lines: Iterable[str]) -> Counter[str]:
    """Samples by step, of py-spy's raw format: `frame;frame;frame COUNT`."""
    found: Counter[str] = Counter()
    for line in lines:
        stack, _, count = line.rpartition(" ")
        step = step_of(stack)
        if step is not None:
            found[step] += int(count)
    return found


def spans(lines: Iterable[str]) -> dict[str, list[float]]:
    """Milliseconds by the name of the span."""
    found: dict[str, list[float]] = {}
    for line in lines:
        span = json.loads(line)
        began, ended = (datetime.fromisoformat(span[each]) for each in ("start_time", "end_time"))
        found.setdefault(span["name"], []).append((ended - began).total_seconds() * 1_000)
    return found


def _core_seconds(pid: int) -> float:
    """CPU seconds of the threads of a process in which the SDK's core runs, of which py-spy sees nothing."""
    return sum(
        each.user_time + each.system_time
        for each in psutil.Process(pid).threads()
        if Path(f"/proc/{pid}/task/{each.id}/comm").read_text().strip() in _CORE_THREADS
    )


def _sampled(own: Product, calls: int, folder: Path) -> tuple[dict[str, float], dict[str, float]]:
    """CPU ms of a call: (in the API, by step; by process)"""
    raw, asks = folder / "samples.txt", own.refunds(calls, FREE)
    program = Path(sysconfig.get_path("scripts")) / "py-spy"
    spy = subprocess.Popen(
        [
            program,
            "record",
            "--pid",
            str(own.stack.info["pids"]["api"]),
            "--rate",
            "200",
            "--format",
            "raw",
            "--output",
            raw,
            "--duration",
            "3600",
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    before, core = _cpu(own), _core_seconds(own.stack.info["pids"]["api"])
    expect(played(Plan(asks, clients=CLIENTS)), "200 executed")
    spent = {name: (seconds - before.get(name, 0.0)) * 1_000 / calls for name, seconds in _cpu(own).items()}
    core = (_core_seconds(own.stack.info["pids"]["api"]) - core) * 1_000 / calls
    spy.send_signal(signal.SIGINT)
    if spy.wait(60) != 0 or not raw.exists():
        sys.exit(
            "py-spy could not look at the API process: it needs the right to (root, or kernel.yama.ptrace_scope 0)"
        )
    samples = by_step(raw.read_text().splitlines())
    each = (spent["api"] - core) / samples.total()
    return {CORE: core} | {step: count * each for step, count in samples.items()}, spent


def _cpu(own: Product) -> dict[str, float]:
    """CPU seconds by what the process is."""
    names = {own.stack.info["pids"][name]: name for name in ("temporal", "api", "sandbox")}
    names |= dict.fromkeys(own.stack.info["pids"]["workers"], "worker") | {own.stack.process.pid: "supervisor"}
    found: dict[str, float] = {}
    for pid, spent in cpu_seconds(own.pids).items():
        name = names.get(pid, "postgres")
        found[name] = found.get(name, 0.0) + spent
    return found


def _tables(steps: Mapping[str, float], cpu: Mapping[str, float], found: Mapping[str, list[float]]) -> Iterable[Table]:
    processes = Table("process", "CPU ms of a call")
    for name, spent in sorted(cpu.items(), key=lambda each: -each[1]):
        processes.add_row(name, f"{spent:.2f}")
    yield processes
    budget = Table("step of the API", "share", "CPU ms of a call")
    for step, each in sorted(steps.items(), key=lambda each: -each[1]):
        budget.add_row(step, f"{each / cpu['api']:.0%}", f"{each:.2f}")
    yield budget
    spent = Table("span, one client", "p50 ms", "p99 ms", "how many")
    for name, took in sorted(found.items(), key=lambda each: -p50(each[1])):
        spent.add_row(name, f"{p50(took):.1f}", f"{p99(took):.1f}", str(len(took)))
    yield spent


def main(calls: Annotated[int, typer.Option(min=100, help="How many calls are looked at")] = 1_000) -> None:
    with tempfile.TemporaryDirectory(prefix="counterseal-bench-") as folder:
        root = Path(folder)
        root.chmod(0o711)
        with product(root, orders=2 * calls) as own:
            expect(played(Plan(own.refunds(calls // 4, FREE), clients=4)), "200 executed")
            steps, cpu = _sampled(own, calls, root)
            traces = DataFolder(own.stack.data).traces / "api.jsonl"
            before = traces.stat().st_size
            expect(played(Plan(own.refunds(100, FREE))), "200 executed")
            # What is exported in batches is all there once the process has stopped.
            own.stop()
            with traces.open() as lines:
                lines.seek(before)
                # The first may be the rest of one that was being written.
                lines.readline()
                found = spans(lines)
    for table in _tables(steps, cpu, found):
        Console().print(table)


if __name__ == "__main__":
    typer.run(main)
