"""What a run is made of: the same for the same seed, and everything in it sooner or later."""

from itertools import islice
from pathlib import Path

import pytest

from runtime.crashing import parse
from runtime.policy import load_checked
from sandbox.faults import KINDS
from tests.chaos.disturbing import DISTURBANCES, schedule
from tests.chaos.evidence import Limits
from tests.chaos.journal import Journal, lines
from tests.chaos.machine import Size, crash_points, policy_for
from tests.chaos.plan import RUN_LIMIT, THRESHOLD, scenarios
from tests.chaos.report import CRASH_POINTS, EVERY_FAULT_FROM
from tools.catalog import Catalog


def test_a_seed_is_a_load() -> None:
    first, again, other = (list(islice(scenarios(seed), 200)) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_no_two_scenarios_share_anything_but_keys_that_conflict_on_purpose() -> None:
    played = list(islice(scenarios(7), 500))
    assert len({each.order.payment_id for each in played}) == len({each.customer_id for each in played}) == 500
    keys = [{call.arguments.get("idempotency_key") for wave in each.waves for call in wave} - {None} for each in played]
    assert sum(map(len, keys)) == len(set().union(*keys))


@pytest.mark.parametrize("seed", range(3))
def test_a_large_load_has_every_kind_of_fault(seed: int) -> None:
    calls, hit = 0, set[str]()
    for scenario in scenarios(seed):
        calls += scenario.calls
        hit |= {fault["do"].partition(":")[0] for fault in scenario.faults}
        if calls >= EVERY_FAULT_FROM:
            break
    assert hit == set(KINDS)


def test_everything_is_disturbed_before_anything_is_again() -> None:
    plan = [each.what for each in islice(schedule(7, gap=(0, 1), long_pauses=True), 3 * len(DISTURBANCES))]
    rounds = [plan[n : n + len(DISTURBANCES)] for n in range(0, len(plan), len(DISTURBANCES))]
    assert [sorted(each) for each in rounds] == [sorted(DISTURBANCES)] * 3


@pytest.mark.parametrize("calls", [40, 2000])
def test_the_stack_understands_what_it_is_told(calls: int, tmp_path: Path) -> None:
    size = Size(calls, seconds=60, seed=7)
    plan = parse(crash_points(size, tmp_path / "crashes"))
    assert (sorted(plan.chances), plan.seed, plan.log) == (sorted(CRASH_POINTS), 7, tmp_path / "crashes")
    policy = tmp_path / "policy.yaml"
    policy.write_text(policy_for(size))
    load_checked(policy, Catalog.load())
    assert Limits.of(policy) == Limits(RUN_LIMIT, size.refunds_per_hour, THRESHOLD, 2 * THRESHOLD)


def test_a_line_that_a_kill_cut_off_is_left_out(tmp_path: Path) -> None:
    log = tmp_path / "log"
    Journal(log).write("sent", call=1)
    with log.open("a") as file:
        file.write('{"kind": "to')
    assert [line["kind"] for line in lines(log)] == ["sent"]
    assert list(lines(tmp_path / "none")) == []
