"""The limits of the policy in force, and how much of them is used. Pure, save `limits_of`, which reads the ledger."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from api.context import Context
from api.pages.charts import Row, Series, Stacked, stacked
from api.pages.coverage import in_words
from api.pages.text import span, words
from api.pages.views import tool_title
from ledger.ledger import TenantLedger
from ledger.usage import Gauge, Hour, Used
from policy.document import Measure, Scope
from policy.model import BREAKER, Counter, Policy, PolicyTool
from schemas.subjects import written

HOURS = 24
# From this part of a limit on it is said that little is left.
_NEARLY = 80

_WHOSE: dict[Scope, str] = {
    "run": "each run",
    "turn": "each turn of a run",
    "customer": "each customer",
    "order": "each order",
    "agent": "each agent",
    "agent_amount": "each amount of each agent",
    "tool": "all agents together",
    "tenant": "all agents and tools together",
    "repeat": "each call that is repeated",
}
_BECAME = (Series("done", "done"), Series("open", "not ended yet"), Series("nothing", "came to nothing"))
# Whose counter is one number for a tenant.
_ONE_NUMBER: tuple[Scope, ...] = ("tool", "tenant")


@dataclass(frozen=True, slots=True)
class Limit:
    """At most `most` in `window`; `used` and `percent` where that is one number, in calls or minor units.

    `trips`: in plain words what is turned off when it is reached, for a breaker.
    """

    name: str
    whose: str
    window: str
    of: Measure
    most: int
    used: int | None = None
    trips: str | None = None

    @property
    def percent(self) -> int | None:
        return None if self.used is None else min(self.used * 100 // self.most, 100)

    @property
    def state(self) -> str:
        if self.percent is None or self.percent < _NEARLY:
            return ""
        return "used up" if self.percent == 100 else "nearly used up"


@dataclass(frozen=True, slots=True)
class Added:
    """What is added up for the rules that ask a person; it is no limit."""

    name: str
    whose: str
    window: str
    of: Measure


@dataclass(frozen=True, slots=True)
class ToolLimits:
    """What the policy says about one tool in numbers, and its calls by the hour."""

    tool: str
    title: str
    limits: tuple[Limit, ...]
    added: tuple[Added, ...]
    thresholds: tuple[tuple[str, int], ...]
    hours: tuple[Hour, ...]

    @property
    def asked(self) -> int:
        return sum(each.asked for each in self.hours)

    @property
    def busiest(self) -> int:
        return max(each.asked for each in self.hours)

    @property
    def chart(self) -> Stacked:
        label = f"{self.title}, by the hour: {self.asked} asked for in {HOURS} hours, at most {self.busiest} in one."
        return stacked(label, "Hour (UTC)", _BECAME, [_row(each) for each in self.hours])


def _row(hour: Hour) -> Row:
    counts = (hour.done, hour.open, hour.nothing)
    return Row(hour.hour.strftime("%H"), hour.hour.strftime("%d %b %H:%M"), counts)


def amount(minor_units: int) -> str:
    """Minor units of whatever currency: 123456 is `1,234.56`."""
    return f"{minor_units // 100:,}.{minor_units % 100:02}"


async def limits_of(services: Context, policy: Policy, ledger: TenantLedger, tenant: str) -> list[ToolLimits]:
    """Every tool that the policy limits, with the tenant's use."""
    found: list[ToolLimits] = []
    for tool in policy.tools.values():
        if tool.limits or tool.breaker:
            counters = [each for each in tool.subjects_needed() if each.max is not None]
            gauges = {each.name: _gauge(tool.name, each) for each in counters if each.per in _ONE_NUMBER}
            used = dict(zip(gauges, await ledger.usage.used(tenant, list(gauges.values())), strict=True))
            hours = await ledger.usage.hourly(tenant, tool.name, HOURS)
            found.append(_tool(services, tool, counters, used, hours))
    return found


def _gauge(tool: str, counter: Counter) -> Gauge:
    return Gauge(tool, written(counter.basis, counter.per), counter.window_seconds, counter.trips)


def _tool(
    services: Context, tool: PolicyTool, counters: Sequence[Counter], used: dict[str, Used], hours: Sequence[Hour]
) -> ToolLimits:
    return ToolLimits(
        tool=tool.name,
        title=tool_title(services, tool.name),
        limits=tuple(_limit(services, each, used.get(each.name)) for each in counters),
        added=tuple(
            Added(words(each.name), _whose(each), _window(each.window_seconds), each.of) for each in tool.totals
        ),
        thresholds=tuple((words(name), value) for name, value in tool.thresholds.items()),
        hours=tuple(hours),
    )


def _limit(services: Context, counter: Counter, used: Used | None) -> Limit:
    return Limit(
        name="the breaker" if counter.name == BREAKER and counter.trips else words(counter.name),
        whose=_whose(counter),
        window=_window(counter.window_seconds),
        of=counter.of,
        most=counter.max or 0,
        used=None if used is None else used.amount if counter.of == "amount" else used.count,
        trips=None if counter.trips is None else in_words(counter.trips, services.catalog),
    )


def _whose(counter: Counter) -> str:
    unasked = ", of what nobody was asked about" if counter.unasked else ""
    return _WHOSE[counter.per] + unasked + (", over all tools that count so" if counter.together else "")


def _window(seconds: int | None) -> str:
    return "ever" if seconds is None else f"in {span(timedelta(seconds=seconds))}"


def waiting_limits(policy: Policy, waiting: int) -> list[Limit]:
    """How many calls may wait for a person at once; none where the policy does not say."""
    parked = policy.parked
    if parked is None:
        return []
    return [
        Limit("waiting for a person", _WHOSE["tenant"], "at once", "count", parked.per_tenant, waiting),
        Limit("waiting for a person", _WHOSE["agent"], "at once", "count", parked.per_agent),
    ]
