"""What changed, who decides and how long it counts, on the page of an approval; an old page approves nothing."""

from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx

from api.pages.fields import changes
from api.pages.views import Deciders, deciders
from tests.api.parked import TENANT, Office, ask_again, facts, void
from tests.api.test_pages import HOSTILE, event_types, form_of, post_decision

LATE = "it could not be executed within 1h"


def _changed(page: str) -> str:
    """The section that says what changed, as text."""
    return unescape(page.partition('id="changed"')[2].partition("</section>")[0])


async def test_the_new_page_says_what_changed_and_leads_back(desk: Office, ana: httpx.AsyncClient) -> None:
    first = await desk.park()
    await desk.decide(first, "approve")
    then = facts(refunded_cents=15_000, disputed=True) | {"refundable_cents": 30_900}
    again = await ask_again(desk.ledger, first, LATE, facts=then)
    page = (await ana.get(f"/approvals/{again.approval_id}")).text
    said = _changed(page)
    assert "Asked again:" in said
    assert LATE in said
    assert f'href="/approvals/{first.approval_id}"' in said
    for label, before, after in (
        ("Already refunded", "50.00 USD", "150.00 USD"),
        ("Still refundable", "409.00 USD", "309.00 USD"),
        ("Disputed", "No", "Yes"),
    ):
        assert label in said
        row = said.partition(label)[2].partition("</tr>")[0]
        assert row.index(before) < row.index(after)
    assert "Age when read" not in said
    assert page.index("What changed") < page.index("What the systems say")
    old = (await ana.get(f"/approvals/{first.approval_id}")).text
    assert "Asked again" in old
    assert LATE in old
    assert f'href="/approvals/{again.approval_id}">Open the new request' in old
    assert "150.00 USD" in _changed(old)


async def test_the_first_request_of_a_call_took_the_place_of_none(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    assert "What changed" not in (await ana.get(f"/approvals/{approval.approval_id}")).text
    await desk.decide(approval, "approve")
    again = await ask_again(desk.ledger, approval, LATE)
    assert "The action and the facts are as they were." in _changed(
        (await ana.get(f"/approvals/{again.approval_id}")).text
    )


async def test_an_old_page_approves_nothing_and_shows_the_change(desk: Office, ana: httpx.AsyncClient) -> None:
    first = await desk.park()
    old = await form_of(ana, first)
    await desk.decide(first, "approve")
    again = await ask_again(desk.ledger, first, LATE, facts=facts(refunded_cents=15_000), action_digest="d" * 64)
    delivered = desk.temporal.verdicts()
    for verdict in ({"decision": "approve"}, {"decision": "deny", "reason": "no"}):
        answer = await post_decision(ana, first, {**old, **verdict})
        assert answer.status_code == 409
        assert "People are asked anew about this" in answer.text
        assert "150.00 USD" in _changed(answer.text)
        assert f'href="/approvals/{again.approval_id}"' in answer.text
    # The new one with what was read on the old page.
    stale = await post_decision(ana, again, {**old, "decision": "approve"})
    assert stale.status_code == 409
    assert "150.00 USD" in _changed(stale.text)
    assert desk.temporal.verdicts() == delivered
    record = await desk.ledger.calls.read(first.request_id)
    assert (record.status, record.approval_id) == ("pending_approval", again.approval_id)
    assert (await event_types(desk, first)).count("approval.granted") == 1
    form = await form_of(ana, again)
    assert (await post_decision(ana, again, {**form, "decision": "approve"})).status_code == 303


async def test_what_ended_on_changed_facts_says_which(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    await desk.decide(approval, "approve")
    await void(desk.ledger, approval, "the facts have changed", facts() | {"customer": {"fraud_flag": True}})
    page = (await ana.get(f"/approvals/{approval.approval_id}")).text
    said = _changed(page)
    assert "Customer flagged for fraud" in said
    assert said.index("No") < said.index("Yes")
    assert 'class="alarming"' in said
    assert "Open the new request" not in page


async def test_a_change_of_what_is_asked_for_and_of_what_is_nested(desk: Office) -> None:
    approval = await desk.park()
    less = {**approval.arguments, "amount_cents": 20_000, "idempotency_key": "0f" * 16, "note": "other words"}
    order: dict[str, Any] = {**facts()["order"], "status": HOSTILE, "tracking": [HOSTILE]}
    del order["version"]
    found = changes(approval, less, facts() | {"order": order, "facts_at": "2026-11-30T08:00:00Z"})
    assert [(str(each.label), each.source) for each in found] == [
        ("Amount", "What is asked for"),
        ("Status", "Order system"),
        ("Record version", "Order system"),
        ("Tracking", "Order system"),
    ]
    assert [str(each) for each in (found[0].before, found[0].after)] == ["312.40 USD", "200.00 USD"]
    assert "not given" in found[2].after
    for each in found:
        assert "<img" not in each.after


async def test_who_decides_now_and_who_from_when(desk: Office, ana: httpx.AsyncClient) -> None:
    now = datetime.now(UTC)
    above: dict[str, Any] = {"escalates_to": "leads", "escalates_at": now + timedelta(hours=3, minutes=1)}
    soon, since = await desk.park(**above), await desk.park(**above | {"escalates_at": now - timedelta(minutes=1)})
    alone = await desk.park()
    assert deciders(soon, now) == Deciders(("finance",), "leads", above["escalates_at"])
    assert deciders(since, now) == Deciders(("finance", "leads"))
    assert deciders(alone, now) == deciders(await desk.park(**above | {"escalates_to": "finance"}), now)
    page = (await ana.get(f"/approvals/{soon.approval_id}")).text
    assert "People of the group “finance”, and from" in page
    assert "in 3 h" in page
    assert "those of “leads” as well" in page
    assert "“finance” or “leads”" in (await ana.get(f"/approvals/{since.approval_id}")).text
    assert "leads" not in (await ana.get(f"/approvals/{alone.approval_id}")).text


async def test_how_long_an_approval_counts(desk: Office, ana: httpx.AsyncClient) -> None:
    short, endless = await desk.park(execute_within_seconds=5_400), await desk.park()
    assert "It runs within 1 h 30 min of the approval." in (await ana.get(f"/approvals/{short.approval_id}")).text
    assert "It runs within" not in (await ana.get(f"/approvals/{endless.approval_id}")).text


async def test_another_tenants_predecessor_stays_its_own(desk: Office) -> None:
    foreign = await desk.park(tenant="other")
    assert await desk.ledger.of(TENANT).approvals.get(TENANT, foreign.approval_id) is None
