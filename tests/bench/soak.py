"""`make soak`: most of what the machine takes, for half an hour; memory, connections and latency must not grow.

The load is a share of the rate at which the stack is saturated, which is measured first. Prints a line for each minute,
and exits 1 where the last third of the run takes more memory, connections or time than the first third, by more than it
may, or where anything failed.
"""

import asyncio
import collections
import json
import statistics
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import asyncpg
import typer
from rich.console import Console
from rich.table import Table

from tests.bench.figures import number, p50, p99
from tests.bench.lab import CLIENTS, FREE, expect
from tests.bench.load import Plan, played
from tests.bench.processes import memory
from tests.bench.product import Product, product

_ORDERS = 6_000
# The machine is shared, Postgres and Temporal fill their caches, and the ledger grows meanwhile.
_GROWTH = {"memory_mb": 1.25, "connections": 1.1, "p50_ms": 1.5}
_CLIENTS = 128
"""More than are ever busy: the pace decides."""


@dataclass(frozen=True)
class Minute:
    """What one minute looked like at its end."""

    minute: int
    calls: int
    p50_ms: float
    p99_ms: float
    memory_mb: float
    connections: int
    others: dict[str, int]
    """How calls ended that were not executed, and how many."""


def growth(minutes: Sequence[Minute], of: Callable[[Minute], float]) -> float:
    """The last third to the first, in medians. The first minute fills caches and does not count."""
    counted = minutes[1:]
    third = max(1, len(counted) // 3)
    return statistics.median(map(of, counted[-third:])) / statistics.median(map(of, counted[:third]))


async def _connections(own: Product) -> int:
    connection = await asyncpg.connect(own.postgres.superuser_url())
    try:
        return await connection.fetchval("SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'")
    finally:
        await connection.close()


def _minute(own: Product, number: int, per_second: float) -> Minute:
    asks = own.refunds(int(per_second * 60), FREE)
    answers = played(Plan(asks, clients=_CLIENTS, per_second=per_second))
    others = collections.Counter(each for each in answers.statuses if each != "200 executed")
    return Minute(
        number,
        len(answers.took_ms),
        round(p50(answers.took_ms), 1),
        round(p99(answers.took_ms), 1),
        round(memory(own.pids) / 2**20, 1),
        asyncio.run(_connections(own)),
        dict(others),
    )


def main(
    minutes: Annotated[int, typer.Option(min=4)] = 30,
    share: Annotated[float, typer.Option(min=0.1, max=1.0, help="Of the rate of saturation")] = 0.7,
    out: Annotated[Path, typer.Option(help="Where the minutes are written as JSON")] = Path("soak.json"),
) -> None:
    terminal, done = Console(highlight=False), list[Minute]()
    with tempfile.TemporaryDirectory(prefix="counterseal-bench-") as folder:
        Path(folder).chmod(0o711)
        with product(Path(folder), orders=_ORDERS) as own:
            rates = [
                expect(played(Plan(own.refunds(600, FREE), clients=CLIENTS)), "200 executed").per_second
                for _ in range(3)
            ]
            per_second = share * rates[-1]
            terminal.print(f"saturated at {rates[-1]:.1f}/s; {per_second:.1f}/s from now on")
            for each in range(minutes):
                done.append(_minute(own, each + 1, per_second))
                terminal.print(" ".join(f"{name} {value}" for name, value in asdict(done[-1]).items()))
    out.write_text(json.dumps([asdict(each) for each in done], indent=1) + "\n")
    table, grown = Table("", "first third to last", "may grow to"), False
    for name, most in _GROWTH.items():
        found = growth(done, lambda each, name=name: getattr(each, name))
        grown |= found > most
        table.add_row(name, f"{found:.2f} ×", f"{number(most)} ×")
    terminal.print(table)
    if grown or any(each.others for each in done):
        sys.exit("it grows, or calls failed")


if __name__ == "__main__":
    typer.run(main)
