"""A candidate beside the policy in force changes nothing but what is written down of it."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from activities import deciding, shadowing
from activities.deciding import Proposed
from ledger.admission import Reads, Usage
from policy.load import load_policy
from policy.model import NOTHING_DONE, Policy
from runtime.policy import candidate as load_candidate
from schemas.codes import Code
from schemas.decisions import ShadowDecision
from schemas.events import CallDecided
from tests.activities.desk import Desk
from tests.ledger.refunds import CATALOG, POLICY, TOOL, Refund
from tests.service import Service

NOW = datetime(2026, 11, 29, 8, tzinfo=UTC)
_CONDITIONS = st.sampled_from(
    [
        "true",
        "args.amount_cents > 4000",
        "facts.order.disputed",
        "facts.order.no_such_fact > 1",
        "1 / 0 > 0",
        "size(args.note)",
        "totals.all_day > 3",
        "facts.order.status",
        "args.order_id.matches('(')",
    ]
)
_RULES = st.lists(
    st.tuples(_CONDITIONS, st.sampled_from(["refuse: UNSAFE_CHAIN", "hold: finance", "hold: leads, people: 2"])),
    max_size=4,
)
_LIMITS = st.lists(
    st.tuples(
        st.sampled_from(["run", "customer", "order", "agent", "agent_amount", "tool", "tenant", "repeat"]),
        st.sampled_from(["", ", window: 1h"]),
        st.sampled_from(["count", "amount"]),
        st.integers(1, 10_000),
    ),
    max_size=3,
)


def _policy(folder: Path, rules: list[tuple[str, str]], limits: list[Any], otherwise: str, *, breaker: bool) -> Policy:
    lines = [
        "name: candidate",
        "defaults: {approvers: finance, deadline: 24h, parked: {per_agent: 1, per_tenant: 1}}",
        "tools:",
        "  issue_refund:",
        "    totals: {all_day: {per: tool, window: 24h, of: count}}",
        "    limits:",
        *(
            f"      - {{name: limit_{n}, per: {per}{window}, of: {of}, max: {most}}}"
            for n, (per, window, of, most) in enumerate(limits)
        ),
        "    breaker: {window: 1h, max: 1, trips: 'class:money_movement'}" if breaker else "",
        "    rules:",
        "      - {name: used, hold: finance, when: totals.all_day > 100000, because: b}",
        *(
            f"      - {{name: rule_{n}, {outcome}, when: {json.dumps(when)}, because: b}}"
            for n, (when, outcome) in enumerate(rules)
        ),
        f"    otherwise: {otherwise}",
    ]
    text = "\n".join(lines)
    path = folder / "candidate.yaml"
    path.write_text(text if limits else text.replace("    limits:\n", ""))
    # Without the names that there are, so that candidates are worse than any that could be loaded.
    return load_policy(path)


class _Broken:
    """A candidate that fails whatever it is asked."""

    version = "broken@000000000000"

    def tool(self, name: str) -> None:
        raise RuntimeError(name)


def _admitted(
    proposed: Proposed, candidate: Any, used: int, off: str | None
) -> tuple[list[Any], ShadowDecision | None]:
    """(what is recorded without what the candidate said, that). Ids are random."""
    windows = deciding.windows_for(POLICY.tool(TOOL), proposed)
    beside = shadowing.windows_beside(candidate, proposed)
    usage = {each.name: Usage(0, 0, None) for each in windows} | {each.name: Usage(used, used, NOW) for each in beside}
    reads = Reads(NOW, 0, usage, switched_off=off)
    shadow = shadowing.said(candidate, proposed, NOTHING_DONE, reads)
    admitted = deciding.admit(POLICY, proposed, NOTHING_DONE, windows, reads, inline=True, shadow=shadow)
    events: list[Any] = []
    for event in admitted.events:
        body = json.loads(re.sub("[0-9a-f]{32}", "", event.model_dump_json()))
        if isinstance(event, CallDecided):
            assert event.shadow == shadow
            del body["shadow"]
        events.append(body)
    return [*events, admitted.tripped_because], shadow


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rules=_RULES,
    limits=_LIMITS,
    otherwise=st.sampled_from(["free", "notify", "hold", "refuse"]),
    breaker=st.booleans(),
    used=st.integers(0, 20_000),
    amount=st.sampled_from([100, 5_000, 25_000]),
)
def test_whatever_a_candidate_says_the_same_is_recorded(
    tmp_path: Path,
    rules: list[tuple[str, str]],
    limits: list[Any],
    otherwise: str,
    breaker: bool,
    used: int,
    amount: int,
) -> None:
    candidate = _policy(tmp_path, rules, limits, otherwise, breaker=breaker)
    proposed = Refund(amount, available=50_000).proposed
    without, nothing = _admitted(proposed, None, used, None)
    with_it, shadow = _admitted(proposed, candidate, used, None)
    assert with_it == without
    assert nothing is None
    assert shadow is not None
    assert shadow.policy_version == candidate.version


def test_a_candidate_that_fails_is_written_down_as_that() -> None:
    proposed = Refund(5_000).proposed
    without, _ = _admitted(proposed, None, 0, None)
    with_it, shadow = _admitted(proposed, _Broken(), 0, None)
    assert with_it == without
    assert shadow == ShadowDecision(policy_version=_Broken.version, verdict=None, rule="error")
    read: Any = _Broken()
    entry = CATALOG.get("lookup_orders")
    assert entry is not None
    said = shadowing.said_of_read(read, proposed.call, entry, NOTHING_DONE)
    assert said is not None
    assert said.verdict is None


def test_where_a_switch_decides_no_candidate_is_asked(tmp_path: Path) -> None:
    candidate = _policy(tmp_path, [("true", "refuse: UNSAFE_CHAIN")], [], "free", breaker=True)
    proposed = Refund(5_000).proposed
    assert _admitted(proposed, candidate, 0, "all")[1] is None


def test_what_the_candidate_counts_is_its_own(tmp_path: Path) -> None:
    candidate = _policy(tmp_path, [], [("tool", ", window: 1h", "count", 3)], "free", breaker=False)
    proposed = Refund(5_000).proposed
    for used, expected in ((2, ("free", "otherwise", None)), (3, ("refuse", "limit_0", Code.RATE_LIMITED))):
        _, shadow = _admitted(proposed, candidate, used, None)
        assert shadow is not None
        assert (shadow.verdict, shadow.rule, shadow.code) == expected


@pytest.mark.asyncio(loop_scope="session")
async def test_a_candidate_that_refuses_and_trips_stops_nothing(wired: Service, tmp_path: Path) -> None:
    candidate = _policy(tmp_path, [("true", "refuse: UNSAFE_CHAIN")], [("run", "", "count", 1)], "refuse", breaker=True)
    desk = Desk(wired.elsewhere(shadow=candidate))
    order = await wired.outside.order()
    alone = await Desk(wired).refund(order, 1_000)
    beside = [await desk.refund(order, 1_000 + n) for n in range(3)]
    assert {each.code for each in beside} == {alone.code}
    assert [await desk.types(each.request_id) for each in beside] == [await desk.types(alone.request_id)] * 3
    events = [event for _, event in await wired.core.ledger.calls.events(beside[-1].request_id)]
    (decided,) = [event for event in events if isinstance(event, CallDecided)]
    assert decided.shadow == ShadowDecision(
        policy_version=candidate.version, verdict="refuse", rule="rule_0", code=Code.UNSAFE_CHAIN
    )
    assert await wired.core.ledger.switches.off((await desk.record(alone.request_id)).tenant) == []
    subjects = await wired.core.ledger.system.fetch(
        "SELECT request_id, array_agg(split_part(subject, ':', 1) ORDER BY subject) AS taken FROM uses"
        " WHERE request_id = ANY($1) GROUP BY request_id",
        [alone.request_id, beside[-1].request_id],
    )
    assert subjects[0]["taken"] == subjects[1]["taken"], "it takes what it would have taken"


@pytest.mark.asyncio(loop_scope="session")
async def test_a_candidate_that_cannot_be_loaded_keeps_no_process_from_starting(wired: Service, tmp_path: Path) -> None:
    policies, catalog = wired.core.ledger.policies, wired.core.catalog
    path = tmp_path / "wrong.yaml"
    path.write_text("name: wrong")
    assert await load_candidate(path, policies, catalog) is None
    assert await load_candidate(Path("none@000000000000"), policies, catalog) is None
    assert await load_candidate(None, policies, catalog) is None
