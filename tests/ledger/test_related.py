"""What stands beside an approval: the customer's earlier refunds and what else waits, of one tenant, by an index."""

from collections import Counter
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from ledger import related
from ledger.ledger import Ledger
from ledger.queries import load
from ledger.related import LATEST, MOST, AllAlike, EarlierCalls
from schemas.decisions import Approval
from tests.api.parked import confirm
from tests.ledger.refunds import Refund, decide, new_binding, open_ledger, parked

TENANT, CUSTOMER = "acme", "cus_4f1d20aa9c01"
TOOLS = ["issue_refund"]


@pytest.fixture
async def ledger(database: str) -> AsyncIterator[Ledger]:
    async with open_ledger(database) as opened:
        yield opened


def _binding(**changes: Any) -> Any:
    return new_binding(**{"tenant": TENANT, "customer_id": CUSTOMER, **changes})


async def _earlier(ledger: Ledger, approval: Approval) -> EarlierCalls:
    return await ledger.of(approval.tenant).related.earlier(approval, TOOLS, datetime.now(UTC))


async def _alike(ledger: Ledger, approval: Approval) -> AllAlike:
    return await ledger.of(approval.tenant).related.alike(approval)


async def test_earlier_refunds_of_the_customer_and_what_they_come_to(ledger: Ledger) -> None:
    done = [await Refund(1_000 + n, binding=_binding(), order_id=f"ord_00000000000{n}").admit(ledger) for n in range(6)]
    for record in done:
        await confirm(ledger, record.request_id)
    denied = await parked(ledger, binding=_binding())
    await decide(ledger, denied, verdict="deny")
    await Refund(2_000, binding=_binding(customer_id="cus_000000000000")).admit(ledger)
    await Refund(2_000, binding=_binding(tenant="globex")).admit(ledger)
    await parked(ledger, binding=_binding(agent_id="another-bot"))  # that one waits as well, and is shown with those
    approval = await parked(ledger, binding=_binding())
    found = await _earlier(ledger, approval)
    assert found.count == Counter(executed=6, denied=1)
    assert found.executed == Counter(USD=6 * 1_000 + 15)
    assert not found.more
    assert len(found.latest) == LATEST
    first, second = found.latest[:2]
    assert (first.request_id, first.approval_id, first.status) == (denied.request_id, denied.approval_id, "denied")
    assert (second.amount, second.currency, second.order_id, second.reason_code) == (
        *(1_005, "USD"),
        *("ord_000000000005", "damaged"),
    )


async def test_what_is_long_ago_is_shown_and_not_added_up(ledger: Ledger) -> None:
    old = await Refund(1_000, binding=_binding()).admit(ledger)
    await confirm(ledger, old.request_id)
    await ledger.system.execute("UPDATE calls SET created_at = now() - interval '91 days'")
    found = await _earlier(ledger, await parked(ledger, binding=_binding()))
    assert [each.request_id for each in found.latest] == [old.request_id]
    assert (found.count, found.executed) == (Counter(), Counter())


async def test_a_customer_without_any(ledger: Ledger) -> None:
    approval = await parked(ledger, binding=_binding())
    assert await _earlier(ledger, approval) == EarlierCalls()
    assert await _alike(ledger, approval) == AllAlike()


async def test_what_waits_of_the_customer_comes_before_that_of_the_agent(ledger: Ledger) -> None:
    approval = await parked(ledger, binding=_binding())
    of_agent = await parked(ledger, binding=_binding(customer_id="cus_000000000000"))
    of_customer = await parked(ledger, binding=_binding(agent_id="another-bot"))
    for other in (
        _binding(customer_id="cus_000000000000", agent_id="another-bot"),
        _binding(tenant="globex"),
    ):
        await parked(ledger, binding=other)
    await decide(ledger, await parked(ledger, binding=_binding()), verdict="deny")
    found = await _alike(ledger, approval)
    assert [(each.approval.approval_id, each.of_customer) for each in found.first] == [
        (of_customer.approval_id, True),
        (of_agent.approval_id, False),
    ]
    assert (found.total, found.more) == (2, False)


async def test_of_many_the_first_are_listed_and_so_many_counted(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(related, "MOST", 3)
    monkeypatch.setattr(related, "LATEST", 2)
    waiting = [await parked(ledger, binding=_binding()) for _ in range(5)]
    found = await _alike(ledger, waiting[-1])
    others = sorted(waiting[:-1], key=lambda each: (each.expires_at, each.approval_id))
    assert [each.approval.approval_id for each in found.first] == [each.approval_id for each in others[:2]]
    assert (found.total, found.more) == (3, True)
    for each in waiting[:-1]:
        await decide(ledger, each, verdict="deny")
    earlier = await _earlier(ledger, waiting[-1])
    assert (len(earlier.latest), earlier.count, earlier.more) == (2, Counter(denied=3), True)


async def test_an_erased_customer_takes_the_list_away_and_not_the_page(ledger: Ledger, database: str) -> None:
    approval = await parked(ledger, binding=_binding())
    await parked(ledger, binding=_binding(customer_id="cus_000000000000"))
    await ledger.system.execute("UPDATE data_keys SET wrapped = NULL WHERE subject = 'cus_000000000000'")
    async with open_ledger(database) as fresh:
        assert await _alike(fresh, approval) == AllAlike((), 1)


async def test_among_very_many_they_are_found_by_an_index(ledger: Ledger) -> None:
    approval = await parked(ledger, binding=_binding())
    await ledger.system.execute(
        """
        WITH call AS (
            INSERT INTO calls (request_id, tenant, run_id, agent_id, customer_id, tool, workflow_id, arguments_digest,
                               status, code, created_at, updated_at, n, hash, key_id, details)
            SELECT 'act_' || i, c.tenant, c.run_id, c.agent_id, 'cus_' || i % 5000, c.tool, 'call/' || i,
                   c.arguments_digest, c.status, c.code, c.created_at, c.updated_at, c.n, c.hash, c.key_id, '\\x00'
            FROM calls c, generate_series(1, 20000) i
        )
        INSERT INTO approvals (approval_id, request_id, tenant, tool, status, approvers, rule, policy_version,
                               action_digest, requested_at, expires_at, key_id, card, customer_id, agent_id)
        SELECT 'apr_' || i, a.request_id, a.tenant, a.tool, 'open', a.approvers, a.rule, a.policy_version,
               a.action_digest, a.requested_at, a.expires_at, a.key_id, '\\x00', 'cus_' || i % 5000, 'bot_' || i % 10
        FROM approvals a, generate_series(1, 20000) i
        """
    )
    await ledger.system.execute("ANALYZE calls, approvals")
    own = ledger.database.tenant(TENANT)
    about = (approval.approval_id, "cus_7", "bot_7", approval.tool, MOST + 1, LATEST)
    plans = {
        "calls_of_customer": (TENANT, "cus_7", TOOLS, approval.request_id, MOST + 1),
        "alike": (TENANT, *about),
    }
    indexes = {
        "calls_of_customer": ["calls_by_customer"],
        "alike": ["approvals_by_customer", "approvals_by_agent"],
    }
    for name, arguments in plans.items():
        rows = await own.fetch(f"EXPLAIN {load('related')[name]}", *arguments)
        plan = "\n".join(row[0] for row in rows)
        assert "Seq Scan" not in plan, plan
        for index in indexes[name]:
            assert index in plan, plan
