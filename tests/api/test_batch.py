"""Requests reviewed together: of what can be undone alone, each on its own digest, each with its own outcome."""

import asyncio
import re
from datetime import timedelta
from html import unescape

import httpx

from ledger.people import Grant
from schemas.decisions import Approval
from tests.api.markup import forbidden
from tests.api.parked import TENANT, Office
from tests.api.test_pages import event_types, hidden

HOSTILE = "<img src=x onerror=alert(1)>\u202e\u200b"


async def cancellations(desk: Office, number: int, **changes: object) -> list[Approval]:
    return [await desk.park(tool="cancel_order", title=f"Cancel {n}", **changes) for n in range(number)]


async def token_of(client: httpx.AsyncClient) -> str:
    return hidden((await client.get("/")).text, "csrf")


async def review(client: httpx.AsyncClient, *approvals: Approval) -> httpx.Response:
    selected = {each.approval_id: "yes" for each in approvals}
    return await client.post("/batch", data={"csrf": await token_of(client), **selected})


async def conclude(
    client: httpx.AsyncClient, *approvals: Approval, verdict: str = "approve", reason: str = "Looked at."
) -> httpx.Response:
    shown = {each.approval_id: each.action_digest for each in approvals}
    sent = {"csrf": await token_of(client), "decision": verdict, "reason": reason, **shown}
    return await client.post("/batch/decision", data=sent)


def outcomes(response: httpx.Response) -> dict[str, str]:
    """Title -> what became of it."""
    assert response.status_code == 200
    found = re.findall(
        r"<h2><a[^>]+>([^<]+)</a></h2></div>\s*<p><span[^>]+><span[^>]+>[^<]+</span> ([^<]+)<", response.text
    )
    return {title: unescape(words) for title, words in found}


async def test_what_can_be_undone_and_is_theirs_can_be_selected_in_the_inbox(
    desk: Office, ana: httpx.AsyncClient
) -> None:
    mine, done = await cancellations(desk, 2)
    await desk.decide(done, "deny", reason="No.")
    for changes in ({"approvers": "legal"}, {"actor_id": "ana"}, {"expires_in": timedelta(seconds=-1)}):
        await cancellations(desk, 1, **changes)
    await desk.park(title="A refund")
    html = (await ana.get("/")).text
    assert re.findall(r'type="checkbox" form="batch" name="(\w+)"', html) == [mine.approval_id]
    assert html.count('id="batch"') == 1


async def test_nothing_to_select_is_no_form(desk: Office, ana: httpx.AsyncClient) -> None:
    await desk.park(title="A refund")
    assert "Review selected" not in (await ana.get("/")).text


async def test_each_is_shown_in_full_and_looking_decides_nothing(desk: Office, ana: httpx.AsyncClient) -> None:
    approvals = await cancellations(desk, 2, untrusted={"note": HOSTILE}, because=HOSTILE)
    html = (await review(ana, *approvals)).text
    for each in approvals:
        for shown in (
            each.title,
            each.action_digest,
            each.request_id,
            "It can be undone: Reinstate a cancelled order.",
        ):
            assert shown in html
        assert await event_types(desk, each) == [
            "call.proposed",
            "call.decided",
            "approval.requested",
            "approval.viewed",
        ]
    assert "Approve these 2" in html
    assert not forbidden(html)
    assert not re.search("[\u202e\u200b]|<img src=x", html)


async def test_all_are_approved_or_denied_each_by_itself(desk: Office, ana: httpx.AsyncClient) -> None:
    first, second, third = await cancellations(desk, 3)
    said = outcomes(await conclude(ana, first, second))
    assert said == dict.fromkeys(["Cancel 0", "Cancel 1"], "Approved, and being carried out.")
    assert {signed.approval_id for _, _, signed in desk.temporal.signals} == {first.approval_id, second.approval_id}
    assert outcomes(await conclude(ana, third, verdict="deny")) == {"Cancel 2": "Denied. Nothing is done."}
    denied = await desk.ledger.of(TENANT).approvals.get(TENANT, third.approval_id)
    assert denied is not None
    assert [(each.approver, each.reason) for each in denied.decisions] == [("ana", "Looked at.")]


async def test_one_that_is_refused_keeps_no_other_back(desk: Office, ana: httpx.AsyncClient) -> None:
    good, decided, two, late, foreign, legal = [
        await desk.park(tool="cancel_order", title="Good"),
        await desk.park(tool="cancel_order", title="Decided"),
        await desk.park(tool="cancel_order", title="Two", people=2),
        await desk.park(tool="cancel_order", title="Late", expires_in=timedelta(seconds=-1)),
        await desk.park(tool="cancel_order", title="Foreign", tenant="other"),
        await desk.park(tool="cancel_order", title="Legal", approvers="legal"),
    ]
    refund = await desk.park(title="Refund")
    proven = await desk.park(tool="cancel_order", title="Proven", proof="reauthenticated")
    await desk.decide(decided, "deny", reason="No.")
    changed = (await cancellations(desk, 1))[0].model_copy(update={"action_digest": "0" * 64})
    said = outcomes(await conclude(ana, decided, two, late, foreign, legal, refund, changed, proven, good))
    assert said == {
        "Good": "Approved, and being carried out.",
        "Decided": "It was decided already. What was decided stands.",
        "Two": "Approved by you. Another person has to approve it as well.",
        "Late": "Its deadline has passed. Nothing was done.",
        foreign.approval_id: "There is no such request. Nothing was decided.",
        "Legal": "It is not yours to decide. Nothing was decided.",
        "Refund": "It cannot be undone, so it is decided on its own page. Nothing was decided.",
        "Proven": "Approving it takes a proof that it is you: do that on its own page. It waits as before.",
        "Cancel 0": "It has changed since you read it. It waits as before; read it again.",
    }
    assert [signed.approval_id for _, _, signed in desk.temporal.signals][-1:] == [good.approval_id]
    assert "approval.granted" not in await event_types(desk, refund)


async def test_limits_and_switches_hold_for_each(desk: Office, ana: httpx.AsyncClient) -> None:
    (over,) = await cancellations(desk, 1, amount=50_000, currency="USD")
    grant = Grant(role="finance", tool="*", currency="USD", up_to=40_000)
    await desk.ledger.principals.identities.grant("ana", grant)
    within = await desk.park(tool="cancel_order", title="Within", amount=40_000, currency="USD")
    assert outcomes(await conclude(ana, over, within)) == {
        "Cancel 0": "It is more than is yours to approve. It waits as before.",
        "Within": "Approved, and being carried out.",
    }
    await desk.ledger.switches.turn_off(TENANT, "tool:cancel_order", by="olga", reason="an example")
    (off,) = await cancellations(desk, 1, amount=1, currency="USD")
    assert outcomes(await conclude(ana, off)) == {
        "Cancel 0": "It is switched off now: approving would have ended it. It waits as before."
    }


async def test_what_cannot_be_undone_is_not_even_shown_for_it(desk: Office, ana: httpx.AsyncClient) -> None:
    refund = await desk.park(title="Refund")
    (cancel,) = await cancellations(desk, 1)
    html = (await review(ana, refund, cancel)).text
    assert "It cannot be undone, so it is decided on its own page." in html
    assert refund.action_digest not in html
    assert "Approve it" in html
    foreign = await desk.park(tool="cancel_order", tenant="other")
    assert "None of them can be decided here." in (await review(ana, foreign)).text


async def test_denying_needs_a_reason(desk: Office, ana: httpx.AsyncClient) -> None:
    approvals = await cancellations(desk, 2)
    response = await conclude(ana, *approvals, verdict="deny", reason=" \r\n ")
    assert response.status_code == 422
    assert "Say why you deny them." in response.text
    assert desk.temporal.signals == []
    assert (await conclude(ana, *approvals, reason="x" * 2001)).status_code == 422


async def test_sent_twice_at_once_each_is_decided_once(desk: Office, ana: httpx.AsyncClient) -> None:
    approvals = await cancellations(desk, 3)
    answers = await asyncio.gather(*(conclude(ana, *approvals) for _ in range(2)))
    for answer in answers:
        assert set(outcomes(answer).values()) == {"Approved, and being carried out."}
    for each in approvals:
        assert (await event_types(desk, each)).count("approval.granted") == 1


async def test_what_is_no_selection_decides_nothing(desk: Office, ana: httpx.AsyncClient) -> None:
    approvals = await cancellations(desk, 11)
    assert (await review(ana, *approvals)).status_code == 422
    assert "Those are too many at once" in (await conclude(ana, *approvals)).text
    token = await token_of(ana)
    assert "Nothing is selected" in (await ana.post("/batch", data={"csrf": token})).text
    one = {approvals[0].approval_id: approvals[0].action_digest}
    assert (await ana.post("/batch/decision", data={"csrf": token, **one})).status_code == 422
    for path in ("/batch", "/batch/decision"):
        assert (await ana.post(path, data={"csrf": "other", "decision": "approve", **one})).status_code == 403
        assert (await ana.get(path)).status_code in (404, 405)
    many = {f"field{n}": "" for n in range(40)}
    assert (await ana.post("/batch", data={"csrf": token, **many})).status_code == 400
    assert desk.temporal.signals == []
