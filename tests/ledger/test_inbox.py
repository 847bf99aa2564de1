"""The inbox in the ledger: what its filters find, and that ten thousand that wait are not looked through one by one."""

import json
from datetime import UTC, datetime

import pytest

from ledger.inbox import Filter, Whose
from ledger.ledger import Ledger
from ledger.people import Grant, Standing
from ledger.queries import load
from tests.ledger.refunds import parked

_COPIES = """
INSERT INTO approvals (approval_id, request_id, tenant, tool, status, approvers, rule, policy_version, action_digest,
                       requested_at, expires_at, key_id, card, agent_id, amount, currency,
                       customer_id)
SELECT 'apr_' || n, request_id, tenant, CASE WHEN n % 10 = 0 THEN 'cancel_order' ELSE 'issue_refund' END,
       CASE WHEN n > 10000 THEN 'denied' ELSE 'open' END, CASE WHEN n % 1000 = 999 THEN 'finance' ELSE 'legal' END,
       rule, policy_version, action_digest, requested_at, now() + n * interval '1 second', key_id, card,
       'bot-' || n % 500, n, 'USD', customer_id
FROM approvals, generate_series(1, 20000) n
"""


def test_what_somebodys_roles_reach() -> None:
    grant = Grant(role="finance", tool="issue_refund", currency="USD", up_to=100)
    standing = Standing("per_1", frozenset({"ana"}), frozenset({"finance", "legal"}), (grant,))
    whose = Whose.of("ANA", standing)
    assert (whose.groups, whose.by_tool) == (("legal",), ("finance/issue_refund",))
    assert whose.names == ("ana",)
    # A grant of a role that they have no more reaches nothing.
    assert Whose.of("ana", Standing(roles=frozenset({"legal"}), grants=(grant,))).by_tool == ()


async def test_ten_thousand_that_wait_are_counted_and_found_by_index(ledger: Ledger) -> None:
    tenant = (await parked(ledger)).tenant
    await ledger.system.execute(_COPIES)
    await ledger.system.execute("VACUUM ANALYZE approvals")
    ana = Whose.of("ana", Standing(names=frozenset({"ana"}), roles=frozenset({"finance"})))
    own = ledger.of(tenant).inbox
    counts = await own.counts(tenant, Filter(), ana)
    assert (counts.waiting, counts.mine, counts.tools["cancel_order"]) == (10_001, 11, 1_000)
    assert (await own.counts(tenant, Filter(mine=True, tool="issue_refund"), ana)).fitting == 11
    sql = load("inbox")
    parameters = (tenant, None, None, None, False, None, None, True, ana.groups, ana.by_tool, ana.names, ana.username)
    plan = await _plan(ledger, sql["waiting"], *parameters, datetime.now(UTC), "", [], 26)
    assert "Seq Scan" not in plan


async def _plan(ledger: Ledger, query: str, *parameters: object) -> str:
    return json.dumps(json.loads(await ledger.system.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *parameters)))


@pytest.mark.parametrize("order_id", ["ord_1", "ord_2"])
async def test_an_order_is_kept_as_a_fingerprint_alone(ledger: Ledger, order_id: str) -> None:
    approval = await parked(ledger)
    kept = await ledger.system.fetchval("SELECT order_index FROM approvals")
    order = str(approval.arguments["order_id"])
    assert order not in kept
    (found,) = await ledger.of(approval.tenant).inbox.of_order(approval.tenant, order, 10)
    assert found.approval_id == approval.approval_id
    assert await ledger.of(approval.tenant).inbox.of_order(approval.tenant, order_id, 10) == []
    assert await ledger.of("other").inbox.of_order("other", order, 10) == []
