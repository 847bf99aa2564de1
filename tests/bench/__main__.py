"""`make bench`: the product beside plain Temporal, in one run on one machine, interleaved; ratios, never promises.

`--only free,decide` measures these lines alone. Prints a table, writes the same as JSON, and exits 1 where a figure
does not reach what it must for a reason that nobody knows yet.
"""

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from tests.bench.figures import Figure, as_json, table
from tests.bench.lab import FULL, QUICK, Lab, lab
from tests.bench.lines import decide, flat, free, history, mcp, park, policy, refuse, scale

LINES: dict[str, Callable[[Lab], list[Figure]]] = {
    "policy": policy.measure,
    "history": history.measure,
    "free": free.measure,
    "refuse": refuse.measure,
    "decide": decide.measure,
    "mcp": mcp.measure,
    "scale": scale.measure,
    "flat": flat.measure,
    "park": park.measure,
}


def main(
    only: Annotated[str, typer.Option(help=f"Lines to measure, separated by commas: {', '.join(LINES)}")] = "",
    quick: Annotated[bool, typer.Option("--quick", help="In two minutes, and less surely")] = False,
    out: Annotated[Path, typer.Option(help="Where the figures are written as JSON")] = Path("bench.json"),
) -> None:
    wanted = [each.strip() for each in only.split(",") if each.strip()] or list(LINES)
    if unknown := [each for each in wanted if each not in LINES]:
        sys.exit(f"there is no line {', '.join(unknown)}; there are {', '.join(LINES)}")
    terminal, began = Console(stderr=True, highlight=False), time.monotonic()

    def say(text: str) -> None:
        terminal.print(f"{time.monotonic() - began:6.1f} s  {text}")

    found: list[tuple[str, list[Figure]]] = []
    failed: dict[str, str] = {}
    with lab(QUICK if quick else FULL, say) as place:
        for line in wanted:
            say(line)
            try:
                found.append((line, LINES[line](place)))
            except RuntimeError as problem:
                # The others' figures are as good without it.
                failed[line] = str(problem)
    Console().print(table(found))
    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": os.cpu_count(),
        "machine": platform.platform(),
        "load": os.getloadavg()[0],
        "quick": quick,
        "seconds": round(time.monotonic() - began),
    }
    out.write_text(json.dumps({"run": about, "lines": as_json(found)}, indent=1) + "\n")
    if failed:
        sys.exit("; ".join(f"{line}: {problem}" for line, problem in failed.items()))
    missed = [figure for _, figures in found for figure in figures if figure.met is False]
    if surprising := [figure.name for figure in missed if not figure.reason]:
        sys.exit(f"not reached, and no reason is known: {', '.join(surprising)}; see above and {out}")


if __name__ == "__main__":
    typer.run(main)
