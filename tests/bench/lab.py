"""What lines are measured in: the product and the plain forms, each started when a line first asks for it."""

import asyncio
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg

from tests.bench.figures import p50, p99
from tests.bench.load import Answers, Ask, Plan, played
from tests.bench.plain.forms import Form, Plain, running
from tests.bench.plain.refunds import SCHEMA
from tests.bench.processes import CpuMeter
from tests.bench.product import Product, product

CLIENTS = 16
"""With which the machine is saturated."""
FREE, HELD = 100, 25_000
"""Minor units of a refund that runs at once, and of one that a person is asked about."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is measured. `many`, `few`: calls of a phase with many clients and with one, each round."""

    rounds: int
    many: int
    few: int
    parked: int
    events: int
    refusals: int


FULL = Scale(rounds=3, many=250, few=50, parked=10_000, events=1_000_000, refusals=6_000)
QUICK = Scale(rounds=2, many=80, few=15, parked=200, events=20_000, refusals=1_000)


@dataclass
class Taken:
    """The phases of one contender, round after round."""

    rates: list[float] = field(default_factory=list[float])
    took_ms: list[float] = field(default_factory=list[float])
    cpu_ms: list[float] = field(default_factory=list[float])

    @property
    def rate(self) -> float:
        return p50(self.rates)

    @property
    def p50(self) -> float:
        return p50(self.took_ms)

    @property
    def p99(self) -> float:
        return p99(self.took_ms)

    @property
    def cpu(self) -> float:
        return p50(self.cpu_ms)


class Lab:
    """One run's machinery, all of it gone at the end."""

    def __init__(self, scale: Scale, say: Callable[[str], None], root: Path, opened: ExitStack) -> None:
        self.scale = scale
        self.say = say
        self.root = root
        self._opened = opened
        self._products: dict[str, Product] = {}
        self._plain: dict[Form, Plain] = {}
        self._runner = opened.enter_context(asyncio.Runner())
        self._forms = AsyncExitStack()
        opened.callback(lambda: self._runner.run(self._forms.aclose()))

    def product(self, name: str = "product", orders: int | None = None) -> Product:
        """The stack of this name."""
        if name not in self._products:
            scale = self.scale
            wanted = orders or 2_000 + 12 * scale.rounds * (scale.many + scale.few)
            self.say(f"starting {name}, with {wanted:,} orders")
            self._products[name] = self._opened.enter_context(product(self.root, orders=wanted, name=name))
            # What a process does first it reads into its caches.
            warm = self._products[name].refunds(60, FREE)
            expect(played(Plan(warm, clients=4)), "200 executed")
        return self._products[name]

    def plain(self, form: Form) -> Plain:
        """The plain form, before the product's gateway and on its Postgres."""
        if form not in self._plain:
            measured = self.product()
            self.say(f"starting plain Temporal {form}")
            plain = self._runner.run(self._start(form, measured))
            warm = measured.plainly(30, FREE, "/refunds", plain.url)
            expect(played(Plan(warm, clients=4)), "200 executed")
            self._plain[form] = plain
        return self._plain[form]

    async def _start(self, form: Form, measured: Product) -> Plain:
        url = measured.postgres.superuser_url()
        connection = await asyncpg.connect(url)
        try:
            await connection.execute(SCHEMA)
        finally:
            await connection.close()
        return await self._forms.enter_async_context(
            running(
                form,
                self.root / form.replace(" ", "-"),
                database=url,
                gateway=measured.stack.info["sandbox"]["gateway"],
                gateway_key=measured.gateway_key,
            )
        )


@contextmanager
def lab(scale: Scale, say: Callable[[str], None]) -> Generator[Lab]:
    with tempfile.TemporaryDirectory(prefix="counterseal-bench-") as folder, ExitStack() as opened:
        root = Path(folder)
        # Postgres may run as another user, who has to pass.
        root.chmod(0o711)
        yield Lab(scale, say, root, opened)


def expect(answers: Answers, status: str) -> Answers:
    """Raises RuntimeError where a request ended otherwise: what failed is not what was to be measured."""
    if set(answers.statuses) != {status}:
        others = {each: answers.of(each) for each in set(answers.statuses) - {status}}
        raise RuntimeError(f"{others} where {status} was to be")
    return answers


def saturate(taken: Taken, asks: list[Ask], pids: Sequence[int], status: str) -> None:
    """One phase with many clients: its rate, and the CPU that it took a call."""
    meter = CpuMeter(pids)
    answers = expect(played(Plan(asks, clients=CLIENTS)), status)
    taken.rates.append(answers.per_second)
    taken.cpu_ms.append(meter.seconds() * 1_000 / len(asks))


def one_by_one(taken: Taken, asks: list[Ask], status: str) -> None:
    """One phase with one client: how long each took. The first opens the connection and does not count."""
    taken.took_ms += expect(played(Plan(asks)), status).took_ms[1:]
