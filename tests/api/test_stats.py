"""The page of measured gates over ASGI and a real ledger: its numbers, who sees which names, and what it refuses."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape

import pytest

from ledger.queries import load
from tests.api.markup import forbidden
from tests.api.parked import PASSWORD, TENANT, Office, park
from tests.api.test_pages import HOSTILE, browser, sign_in
from tests.api.test_switches_page import text_of

PAGE = "/stats"


async def section(desk: Office, name: str, *, as_: str = "ana", query: str = "") -> str:
    html = (await (await sign_in(desk, as_)).get(f"{PAGE}{query}")).text
    found = re.search(rf'<section class="card" aria-labelledby="{name}">.*?</section>', html, re.DOTALL)
    assert found is not None
    return found[0]


async def said(desk: Office, query: str = "", *, as_: str = "ana") -> str:
    response = await (await sign_in(desk, as_)).get(f"{PAGE}{query}")
    assert response.status_code == 200
    return unescape(text_of(response.text)).replace("\xa0", " ")


async def test_a_gate_says_its_numbers_and_what_to_do(desk: Office) -> None:
    for n in range(21):
        await desk.decide(await desk.park(), "approve" if n % 2 else "deny", reason="No.")
    expired = await desk.park(expires_in=timedelta(seconds=-1), rule="customer_24h")
    await desk.ledger.approvals.expire(expired.request_id)
    text = await said(desk)
    assert "Rule over_threshold ▼ often refused" in text
    assert "Agents ask for what people refuse: tighten the rule, or the agent's instructions." in text
    assert "47.6 % approved (between 28 and 68 %)" in text
    assert "Asked 21 Approved 10 Denied 11 Half decided within" in text
    assert "Rule customer_24h … too few decisions" in text
    assert "Asked 1 Approved 0 Denied 0 Expired 1" in text
    assert "Too few decisions to say: 20 more are needed." in text
    assert "All its rules together" in text
    assert "22 writes were decided by the policy, 22 of them held for a person (100.0 %)" in text


async def test_one_rule_is_not_told_twice(desk: Office) -> None:
    await desk.park()
    assert "All its rules together" not in await said(desk)


async def test_the_queue_is_the_one_of_now(desk: Office) -> None:
    await desk.park(requested_at=datetime.now(UTC) - timedelta(hours=3), expires_in=timedelta(minutes=30))
    await desk.park(tool="cancel_order")
    assert "Waiting now 2 Expire within the hour 1 Oldest waits for 3 h" in await said(desk)
    assert "Waiting now 1 Expire within the hour 0" in await said(desk, "?tool=cancel_order")


async def test_period_and_action_can_be_chosen_and_are_kept(desk: Office) -> None:
    day = (datetime.now(UTC) - timedelta(days=60)).replace(hour=12)
    await desk.park(requested_at=day, rule="old_rule")
    await desk.park(tool="cancel_order", rule="new_rule")
    date = day.date().isoformat()
    assert "old_rule" not in await said(desk)
    assert "new_rule" in await said(desk)
    html = (await (await sign_in(desk)).get(f"{PAGE}?since={date}&until={date}")).text
    assert "old_rule" in html
    assert "new_rule" not in html
    assert f'name="since" value="{date}"' in html
    assert f'name="until" value="{date}"' in html
    assert f"?tool=cancel_order&amp;since={date}&amp;until={date}" in html
    assert "Nobody was asked anything" in await said(desk, f"?since={date}&until={date}&tool=cancel_order")
    assert "new_rule" in await said(desk, "?since=&until=&tool=nothing_like_it"), "an unknown action shows all"


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-01", "since=2026-11-02&until=2026-11-01", "since=%00"]
)
async def test_what_is_no_period_is_said_in_words(desk: Office, query: str) -> None:
    response = await (await sign_in(desk)).get(f"{PAGE}?{query}")
    assert response.status_code == 422
    assert "That is no period" in response.text


async def test_names_are_for_operators_and_the_group_that_was_asked(desk: Office) -> None:
    await desk.ledger.principals.add_user(TENANT, "rob", "Rob Example", PASSWORD, ["auditor"])
    await desk.decide(await desk.park(), "approve")
    legal = await desk.park(approvers="legal")
    await desk.ledger.approvals.viewed(legal, "lea")
    for who, names in (("olga", ["ben", "lea"]), ("ana", ["ben"]), ("rob", [])):
        html = await section(desk, "people", as_=who)
        assert re.findall(r"<h3>(\w+)</h3>", html) == names, who
        assert "This measures the gate, not the person." in html
    assert "Operators see everyone's" in unescape(text_of(await section(desk, "people", as_="rob")))


async def test_another_tenants_gates_are_not_shown(desk: Office) -> None:
    await park(desk.ledger, tenant="other", rule="their_rule")
    text = await said(desk, as_="olga")
    assert "their_rule" not in text
    assert "Waiting now 0" in text
    assert (await browser(desk).get(PAGE)).status_code == 303


async def test_a_decision_through_the_api_is_told_from_one_on_the_page(desk: Office) -> None:
    shown, unseen = await desk.park(), await desk.park()
    _, token = await desk.ledger.principals.issue("approver", TENANT, "ana")
    body = {"decision": "approve", "action_digest": unseen.action_digest}
    answer = await browser(desk).post(
        f"/v1/approvals/{unseen.approval_id}/decision", json=body, headers={"authorization": f"Bearer {token}"}
    )
    assert answer.status_code == 200
    client = await sign_in(desk)
    html = (await client.get(f"/approvals/{shown.approval_id}")).text
    token = re.findall(r'name="csrf" value="([^"]+)"', html)[-1]
    form = {"csrf": token, "action_digest": shown.action_digest, "decision": "approve"}
    assert (await client.post(f"/approvals/{shown.approval_id}/decision", data=form)).status_code == 303
    people = unescape(text_of(await section(desk, "people")))
    assert "Quicker than reading 1 of 1 Decided through the API 1" in people


async def test_what_others_wrote_stays_text_and_the_page_needs_no_inline_style(desk: Office) -> None:
    hostile = HOSTILE.replace("\x1b", "")
    await desk.park(tool=hostile[:60], rule=hostile)
    await desk.decide(await desk.park(rule=hostile), "approve")
    for who in ("ana", "olga"):
        html = (await (await sign_in(desk, who)).get(PAGE)).text
        assert "<img src=x" not in html
        assert not forbidden(html)
        assert not re.search(r"https?://", html)
        assert not re.search("[\u202e\u202c\u200b\u2066]", html)


async def test_it_takes_two_queries(desk: Office) -> None:
    await desk.park()
    client = await sign_in(desk)
    sent: list[str] = []
    pool = desk.ledger.database.tenant(TENANT)
    async with pool.acquire() as connection:
        connection.add_query_logger(lambda record: sent.append(record.query))
        # The only connection that is free: the page gets this one.
    await client.get(PAGE)
    queries = load("gates").values()
    assert len([query for query in sent if query in queries]) == 2
    assert [query for query in sent if query not in queries and "set_config" not in query] == []
