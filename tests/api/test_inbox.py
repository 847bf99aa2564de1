"""The inbox over ASGI and a real ledger: order, filters, what an id finds, and an agent that asks for too much."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from ledger.cards import FLOOD
from ledger.people import Grant
from tests.api.markup import forbidden
from tests.api.parked import Office, facts
from tests.api.test_pages import form_of, sign_in


async def titles(client: httpx.AsyncClient, path: str = "/", **query: str) -> list[str]:
    """What is listed, in order."""
    response = await client.get(path, params=query or None)
    assert response.status_code == 200
    return [unescape(each) for each in re.findall(r"<h2[^>]*><a href=\"[^\"]+\">([^<]+)</a></h2>", response.text)]


async def count_of(client: httpx.AsyncClient, label: str, **query: str) -> int:
    """How many a choice of the filter says that there are."""
    html = (await client.get("/", params=query or None)).text
    found = re.search(rf'>{re.escape(label)} <span class="count">([\d,]+)</span>', html)
    assert found is not None, label
    return int(found[1].replace(",", ""))


async def test_it_is_ordered_by_deadline_and_paged(desk: Office, ana: httpx.AsyncClient) -> None:
    parked = [await desk.park(expires_in=timedelta(hours=40 - number)) for number in range(27)]
    first = (await ana.get("/")).text
    ids = [approval.approval_id for approval in reversed(parked)]
    assert re.findall(r'<h2><a href="/approvals/(\w+)"', first) == ids[:25]
    following = re.search(r'rel="next" href="([^"]+)"', first)
    assert following is not None
    second = (await ana.get(unescape(following[1]))).text
    assert re.findall(r'<h2><a href="/approvals/(\w+)"', second) == ids[25:]
    assert 'rel="next"' not in second


async def test_it_shows_one_tenant_and_whose_it_is(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park(title="Refund for finance")
    await desk.park(title="Refund for legal", approvers="legal")
    await desk.park(title="Refund of another tenant", tenant="other")
    html = (await ana.get("/")).text
    assert "Refund for finance" in html
    assert html.count("You can decide") == 1
    assert "For legal" in html
    assert "another tenant" not in html


async def test_an_empty_inbox_says_so(ana: httpx.AsyncClient) -> None:
    assert "Nothing waits for a decision." in (await ana.get("/")).text


# Filters


async def test_filters_narrow_together_and_say_how_many_there_are(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park(title="Small", amount=5_000, currency="USD")
    await desk.park(title="Large", amount=31_240, currency="USD")
    await desk.park(title="Large in yen", amount=31_240, currency="JPY")
    await desk.park(title="Large for legal", amount=31_240, currency="USD", approvers="legal")
    await desk.park(title="A cancellation", tool="cancel_order", agent_id="shop-bot")
    assert await titles(ana, tool="cancel_order") == ["A cancellation"]
    assert await titles(ana, group="legal") == ["Large for legal"]
    assert await titles(ana, agent="shop-bot") == ["A cancellation"]
    assert await titles(ana, at_least="312.40", currency="USD") == ["Large", "Large for legal"]
    assert await titles(ana, at_least="312,40", currency="USD", mine="yes") == ["Large"]
    assert await titles(ana, at_least="312.41", currency="USD") == []
    assert await titles(ana, at_least="31240", currency="JPY") == ["Large in yen"]
    assert await titles(ana, at_least="312.40", currency="USD", tool="cancel_order") == []
    # A choice says what is there when it is chosen, with the rest of the filter as it is.
    assert await count_of(ana, "Cancel an order") == 1
    assert await count_of(ana, "legal") == 1
    assert await count_of(ana, "legal", at_least="1", currency="JPY") == 0
    assert await count_of(ana, "Mine to decide") == 4
    assert await count_of(ana, "Mine to decide", at_least="312.40", currency="USD") == 1
    assert "2 of the 5 that wait." in (await ana.get("/", params={"at_least": "312.40", "currency": "USD"})).text


async def test_the_links_of_a_filter_keep_the_rest_of_it(desk: Office, ana: httpx.AsyncClient) -> None:
    for number in range(27):
        await desk.park(
            title=f"Refund {number:02}", amount=31_240, currency="USD", expires_in=timedelta(hours=number + 2)
        )
    await desk.park(title="Of legal", approvers="legal", amount=31_240, currency="USD")
    html = (await ana.get("/", params={"at_least": "100", "currency": "USD"})).text
    mine = re.search(r'<a href="(/\?[^"]+)">Mine to decide', html)
    assert mine is not None
    narrowed = (await ana.get(unescape(mine[1]))).text
    assert "27 of the 28 that wait." in narrowed
    following = re.search(r'rel="next" href="([^"]+)"', narrowed)
    assert following is not None
    assert await titles(ana, unescape(following[1])) == ["Refund 25", "Refund 26"]


async def test_mine_is_what_this_person_may_decide(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park(title="For finance")
    await desk.park(title="For legal", approvers="legal")
    past, later = datetime.now(UTC) - timedelta(minutes=1), datetime.now(UTC) + timedelta(hours=1)
    await desk.park(title="Escalated", approvers="legal", escalates_to="finance", escalates_at=past)
    await desk.park(title="Not yet", approvers="legal", escalates_to="finance", escalates_at=later)
    await desk.park(title="Her own", actor_id="ANA")
    assert await titles(ana, mine="yes") == ["For finance", "Escalated"]
    assert await titles(ana, group="finance") == ["For finance", "Escalated", "Her own"]
    assert (await ana.get("/", params={"mine": "yes"})).text.count("You can decide") == 2
    # A role that goes for one tool alone reaches no other.
    await desk.ledger.principals.identities.grant(
        "ana", Grant(role="finance", tool="cancel_order", currency="USD", up_to=1)
    )
    assert await titles(ana, mine="yes") == []
    assert "Nothing waits for you." in (await ana.get("/", params={"mine": "yes"})).text


async def test_what_waits_for_a_second_person(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park(title="Supported", people=2)
    await desk.park(title="Not looked at", people=2)
    assert "Nothing waits for a second person." in (await ana.get("/", params={"second": "yes"})).text
    await desk.decide(approval, "approve")
    assert await titles(ana, second="yes") == ["Supported"]
    assert "One approved; waits for another" in (await ana.get("/")).text
    ben = await sign_in(desk, "ben")
    # He has done his part: it is not his to decide any more, and he is told so.
    assert await titles(ben, mine="yes") == ["Not looked at"]
    assert "You approved; waits for another" in (await ben.get("/")).text


@pytest.mark.parametrize(
    ("typed", "currency"), [("a lot", "USD"), ("1.999", "USD"), ("5", ""), ("-5", "USD"), ("1e9", "USD")]
)
async def test_an_amount_that_is_none_is_said_and_leaves_nothing_out(
    desk: Office, ana: httpx.AsyncClient, typed: str, currency: str
) -> None:
    await desk.park(amount=1, currency="USD")
    html = (await ana.get("/", params={"at_least": typed, "currency": currency})).text
    assert "That is not an amount" in html
    assert html.count("You can decide") == 1


async def test_a_filter_that_nothing_fits_says_what_there_is(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park()
    html = (await ana.get("/", params={"agent": "<b>nobody</b>", "tool": "\u202ex"})).text
    assert "Nothing that waits fits this." in html
    assert "1 request waits otherwise." in html
    assert "<b>" not in html
    assert "\u202e" not in re.sub(r'value="[^"]*"', "", html)
    assert not forbidden(html)


@pytest.mark.parametrize("query", [{"tool": "x" * 201}, {"find": "x" * 201}, {"agent": "\0"}, {"find": "act_\0"}])
async def test_an_address_that_is_none_is_said(ana: httpx.AsyncClient, query: dict[str, str]) -> None:
    response = await ana.get("/", params=query)
    assert response.status_code == 400
    assert "That address is not complete" in response.text


# What is found by an id


async def test_an_id_leads_to_its_approval(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park(facts=_about("ord_of_this_one"))
    for wanted in (f" {approval.request_id} ", approval.approval_id, "ord_of_this_one"):
        found = await ana.get("/", params={"find": wanted})
        assert found.headers["location"] == f"/approvals/{approval.approval_id}"


async def test_several_about_one_order_are_listed_what_waits_first(desk: Office, ana: httpx.AsyncClient) -> None:
    for title in ("Decided", "Still waits"):
        made = await desk.park(title=title, facts=_about("ord_twice"))
        if title == "Decided":
            await desk.decide(made, "deny", reason="No.")
    await desk.park(title="Of another order")
    html = (await ana.get("/", params={"find": "ord_twice"})).text
    found = html[: html.index('class="narrowing"')]
    assert re.findall(r'<h3><a href="/approvals/\w+">([^<]+)', found) == ["Still waits", "Decided"]


async def test_what_is_anothers_is_found_as_little_as_what_is_nobodys(desk: Office, ana: httpx.AsyncClient) -> None:
    foreign = await desk.park(tenant="other", facts=_about("ord_of_others"))
    for wanted in (foreign.request_id, foreign.approval_id, "ord_of_others"):
        nobodys = wanted[:4] + "".join("1" if each == "0" else "0" for each in wanted[4:])
        answers = [await ana.get("/", params={"find": each}) for each in (wanted, nobodys)]
        assert [each.status_code for each in answers] == [200, 200]
        assert "Nothing found." in answers[0].text
        assert answers[0].text.replace(wanted, "") == answers[1].text.replace(nobodys, "")


@pytest.mark.parametrize("wanted", ["act_", "<script>alert(1)</script>", "\u202e", "ord_8f2b91a04c7", "%"])
async def test_what_is_no_id_finds_nothing_and_stays_text(desk: Office, ana: httpx.AsyncClient, wanted: str) -> None:
    await desk.park()
    response = await ana.get("/", params={"find": wanted})
    assert response.status_code == 200
    assert "Nothing found." in response.text
    assert not forbidden(response.text)


def _about(order_id: str) -> dict[str, Any]:
    said = facts()
    return {**said, "order": {**said["order"], "order_id": order_id}}


# An agent that asks for more than people can read


async def test_many_of_one_agent_are_one_line_and_hide_nobody(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park(title="Sooner", expires_in=timedelta(hours=1))
    await desk.park(title="Later", expires_in=timedelta(hours=30))
    for number in range(FLOOD + 2):
        hours = 2 + number / 100
        await desk.park(title=f"Flood {number}", agent_id="support-bot-7", expires_in=timedelta(hours=hours))
    assert await titles(ana) == ["Sooner", f"{FLOOD + 2} from agent support-bot-7: show", "Later"]
    html = (await ana.get("/")).text
    assert f"{FLOOD + 2} requests of the agent support-bot-7 wait." in html
    assert "Turn the agent off" not in html
    assert len(await titles(ana, agent="support-bot-7")) == 25
    # Where few of them fit, they are listed.
    assert await titles(ana, agent="support-bot-7", tool="cancel_order") == []
    olga = await sign_in(desk, "olga")
    shown = (await olga.get("/")).text
    switch = re.search(r'href="(/operations/switches\?agent=support-bot-7)"', shown)
    assert switch is not None
    assert 'value="support-bot-7"' in (await olga.get(switch[1])).text


async def test_operators_are_told_once_until_one_has_seen_to_it(desk: Office) -> None:
    async def alerts() -> list[str]:
        return [each.kind for each in await desk.ledger.of("acme").alerts.open("acme", 10)]

    made = [await desk.park(agent_id="support-bot-7") for _ in range(FLOOD)]
    assert await alerts() == []
    await desk.park(agent_id="support-bot-7")
    await desk.park(agent_id="support-bot-7")
    await desk.park(agent_id="another-bot")
    assert await alerts() == ["agent_flood"]
    assert "more waiting than people can read" in (await (await sign_in(desk, "olga")).get("/operations")).text
    # It falls below and rises again: the alert is open still.
    for each in made[:3]:
        await desk.decide(each, "deny", reason="Enough.")
    for _ in range(3):
        await desk.park(agent_id="support-bot-7")
    assert await alerts() == ["agent_flood"]


# What comes next


async def test_after_a_decision_the_next_is_one_that_is_theirs_however_far_away(
    desk: Office, ana: httpx.AsyncClient
) -> None:
    first = await desk.park(expires_in=timedelta(hours=1))
    for number in range(30):
        await desk.park(approvers="legal", expires_in=timedelta(hours=2, minutes=number))
        await desk.park(actor_id="ana", expires_in=timedelta(hours=2, minutes=number))
    passed = await desk.park(title="Passed", expires_in=timedelta(seconds=-1))
    mine = await desk.park(
        title="This one is hers to deny", expires_in=timedelta(hours=9), amount=50_000, currency="USD"
    )
    await desk.ledger.principals.identities.grant("ana", Grant(role="finance", tool="*", currency="USD", up_to=40_000))
    await desk.decide(first, "deny", reason="No.")
    html = (await ana.get(f"/approvals/{first.approval_id}")).text
    assert f'href="/approvals/{mine.approval_id}">Next: This one is hers to deny' in html
    assert passed.approval_id not in html


async def test_the_next_fits_the_filter_that_one_came_with(desk: Office, ana: httpx.AsyncClient) -> None:
    first = await desk.park(tool="cancel_order", expires_in=timedelta(hours=1))
    await desk.park(expires_in=timedelta(hours=2))
    following = await desk.park(title="Fits", tool="cancel_order", expires_in=timedelta(hours=3))
    query = "?tool=cancel_order"
    assert f'/approvals/{first.approval_id}{query}"' in (await ana.get(f"/{query}")).text
    form = await form_of(ana, first)
    answer = await ana.post(f"/approvals/{first.approval_id}/decision{query}", data={**form, "decision": "approve"})
    assert answer.headers["location"] == f"/approvals/{first.approval_id}{query}"
    html = (await ana.get(answer.headers["location"])).text
    assert f'href="/approvals/{following.approval_id}{query}">Next: Fits' in html
