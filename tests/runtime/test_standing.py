"""Gauges tell what was found last, that something is down, and nothing that is no longer known."""

from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry import metrics
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint

from ledger.standing import OpenCalls, Standing, SwitchedOff, Waiting
from runtime import standing
from runtime.standing import OF_THE_LEDGER, Gauges

FOUND = Standing(
    approvals=(Waiting("issue_refund", 3, oldest=120.0, due=-5.0),),
    calls=(
        OpenCalls("issue_refund", "outcome_unknown", 2, 1, oldest=900.0, unmoved=30.0),
        OpenCalls("cancel_order", "in_progress", 1, 0, oldest=0.0, unmoved=7.0),
    ),
    switches=(SwitchedOff("tool", True, 1), SwitchedOff("agent", False, 2)),
    notices_undelivered=4,
    notices_overdue=61.0,
    alerts={"needs_review": 1},
    seal_lag=2.0,
    projection_lag=0.0,
)


class World:
    """What the gauges look at."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.found: Standing | Exception = FOUND
        self.pollers: dict[Any, int] | Exception = {"payments": 2}
        self.reader = InMemoryMetricReader()

    async def look(self, pool: Any) -> Standing:
        return answer(self.found)

    async def polling(self) -> dict[Any, int]:
        return answer(self.pollers)

    def told(self) -> dict[tuple[str, ...], float]:
        """(name, label values) -> value"""
        data = self.reader.get_metrics_data()
        if data is None:
            return {}
        return {
            (metric.name.removeprefix("counterseal."), *map(str, (point.attributes or {}).values())): point.value
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            for point in metric.data.data_points
            if isinstance(point, NumberDataPoint)
        }


def answer(found: Any) -> Any:
    if isinstance(found, Exception):
        raise found
    return found


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    made = World()
    provider = MeterProvider([made.reader])
    monkeypatch.setattr(metrics, "get_meter", provider.get_meter)
    monkeypatch.setattr(standing, "look", made.look)
    yield made
    provider.shutdown()


@pytest.fixture
def gauges(world: World, monkeypatch: pytest.MonkeyPatch) -> Gauges:
    pool: Any = None
    made = Gauges(pool, pool, "counterseal", clock=lambda: world.now)
    monkeypatch.setattr(made, "_polling", world.polling)
    made.observe()
    return made


async def test_they_tell_what_was_found(world: World, gauges: Gauges) -> None:
    assert world.told() == {}
    await gauges.look()
    assert world.told() == {
        ("up", "database"): 1,
        ("up", "temporal"): 1,
        ("pollers", "payments"): 2,
        ("approvals.waiting", "issue_refund"): 3,
        ("approvals.oldest", "issue_refund"): 120,
        ("approvals.due", "issue_refund"): -5,
        ("calls.open", "issue_refund", "outcome_unknown"): 2,
        ("calls.open", "cancel_order", "in_progress"): 1,
        ("calls.unmoved", "issue_refund", "outcome_unknown"): 30,
        ("calls.unmoved", "cancel_order", "in_progress"): 7,
        ("unknown.oldest", "issue_refund"): 900,
        ("unknown.inspection_age", "issue_refund"): 30,
        ("reviews.open", "issue_refund"): 1,
        ("switches.off", "tool", "breaker"): 1,
        ("switches.off", "agent", "operator"): 2,
        ("alerts.open", "needs_review"): 1,
        ("notices.undelivered",): 4,
        ("notices.overdue",): 61,
        ("seal.lag",): 2,
        ("projection.lag",): 0,
    }


async def test_what_does_not_answer_is_down_and_nothing_is_told_of_it(world: World, gauges: Gauges) -> None:
    await gauges.look()
    world.found = OSError("what no metric may hold")
    await gauges.look()
    assert world.told() == {("up", "database"): 0, ("up", "temporal"): 1, ("pollers", "payments"): 2}
    world.found, world.pollers = FOUND, TimeoutError()
    await gauges.look()
    told = world.told()
    assert (told["up", "database"], told["up", "temporal"]) == (1, 0)
    assert not [name for name, *_ in told if name == "pollers"]


async def test_what_was_found_long_ago_is_not_told(world: World, gauges: Gauges) -> None:
    await gauges.look()
    world.now += 59
    assert world.told()
    world.now += 2
    assert world.told() == {}


def test_each_says_what_it_is() -> None:
    assert all(each.description and each.unit in ("", "s") for each in OF_THE_LEDGER)
