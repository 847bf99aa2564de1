"""`python -m tests.chaos`: break a loaded stack, and judge it. Exit 0 only when nothing that must hold was broken."""

import argparse
import asyncio
import random
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.chaos.checking import check
from tests.chaos.evidence import Evidence
from tests.chaos.machine import Size, run
from tests.chaos.stack import StackFailure

ROOT = Path(__file__).parents[2]
_SELDOM_SECONDS = 10.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--calls", type=int, default=300, help="calls to send at least (default 300)")
    parser.add_argument("--minutes", type=float, default=10, help="no new calls after so long (default 10)")
    parser.add_argument("--seed", type=int, default=None, help="the same load and schedule again (default: a new one)")
    parser.add_argument("--check", type=Path, metavar="DIR", help="only judge the evidence of an earlier run")
    options = parser.parse_args()
    if options.check is not None:
        return _check(options.check)
    seed = random.randrange(10**6) if options.seed is None else options.seed
    folder = ROOT / "artifacts" / "chaos" / f"seed-{seed}"
    shutil.rmtree(folder, ignore_errors=True)
    _print(f"seed {seed}, {options.calls} calls; evidence: {folder}\n")
    try:
        report = asyncio.run(run(Size(options.calls, options.minutes * 60, seed), folder, _progress()))
    except StackFailure as failure:
        _print(f"\nthe run failed: {failure}; seed {seed}\n")
        return 1
    except (KeyboardInterrupt, asyncio.CancelledError):
        return 130
    _print("\n" + "\n".join(report.lines()) + "\n")
    return 0 if report.passed else 1


def _check(folder: Path) -> int:
    try:
        violations = check(Evidence.of(folder))
    except (OSError, ValueError) as problem:
        _print(f"{folder} cannot be judged: {problem}\n")
        return 2
    _print("".join(f"{violation}\n" for violation in violations) + f"{len(violations)} violations\n")
    return 1 if violations else 0


def _progress() -> Callable[[str], None]:
    """A line that is written over at a terminal; elsewhere one now and then."""
    last = -_SELDOM_SECONDS

    def say(line: str) -> None:
        nonlocal last
        if sys.stdout.isatty():
            _print(f"\r{line:<70}")
        elif time.monotonic() - last >= _SELDOM_SECONDS:
            last = time.monotonic()
            _print(f"{line}\n")

    return say


def _print(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
