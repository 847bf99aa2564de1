"""Outcomes that nobody knows, settled by operators: what they are shown, what they must confirm, and what follows."""

import re
import secrets
from html import unescape
from typing import Any, get_args
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from pydantic import JsonValue
from temporalio.service import RPCError, RPCStatusCode

from api.pages.unsettled import alert_told
from ledger.principals import token_hash
from ledger.records import CallRecord, Step
from ledger.reviews import Conclusion, Reviews, Settled
from schemas.codes import Code
from schemas.decisions import Approval
from schemas.effects import AlertKind, Exchange, ReviewReason
from schemas.events import CallSettled, EffectReversed, ReviewConcluded
from schemas.replies import Explanation
from tests.api.conftest import Api, Tenant
from tests.api.markup import forbidden
from tests.api.parked import TENANT, Office, ask_for_review, confirm, lose_answer, operation_of
from tests.api.test_pages import HOSTILE, browser, hidden, sign_in
from tests.service import refund_arguments

EVIDENCE = "Seen in the gateway's dashboard under the operation id."
UNKNOWN = f"/operations/review/act_{'0' * 32}"


async def in_review(desk: Office, because: ReviewReason = "absent", **changes: Any) -> Approval:
    """An approved refund of 312.40 USD whose outcome is an operator's to settle."""
    approval = await desk.park(**changes)
    if approval.tenant == TENANT:
        await desk.decide(approval, "approve")
    await lose_answer(desk.ledger, approval.request_id)
    await ask_for_review(desk.ledger, approval.request_id, because)
    return approval


def page_of(approval: Approval) -> str:
    return f"/operations/review/{approval.request_id}"


async def finding(client: httpx.AsyncClient, approval: Approval, **changes: str) -> dict[str, str]:
    """What the form of the page would send for a refund that happened."""
    html = (await client.get(page_of(approval))).text
    return {
        "csrf": hidden(html, "csrf"),
        "because": hidden(html, "because"),
        "happened": "yes",
        "remote_id": "re_found",
        "evidence": EVIDENCE,
        **changes,
    }


def shown_again(html: str) -> dict[str, str]:
    """What the second page would send, without what the operator has to type."""
    return {name: hidden(html, name) for name in ("csrf", "because", "happened", "remote_id", "evidence")}


async def confirmed(
    client: httpx.AsyncClient, approval: Approval, confirmation: str = "312.40", **changes: str
) -> httpx.Response:
    """Both pages, one after the other, as an operator goes through them."""
    first = await client.post(page_of(approval), data=await finding(client, approval, **changes))
    assert first.status_code == 200, first.text
    return await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": confirmation})


async def conclusions(desk: Office, approval: Approval) -> list[ReviewConcluded]:
    events = await desk.ledger.calls.events(approval.request_id)
    return [event for _, event in events if isinstance(event, ReviewConcluded)]


async def stays_in_review(desk: Office, approval: Approval) -> bool:
    record = await desk.ledger.calls.read(approval.request_id)
    return record.review is not None and await conclusions(desk, approval) == [] and desk.temporal.told_to_look == []


async def use_of(desk: Office, approval: Approval) -> str:
    return await desk.ledger.system.fetchval("SELECT state FROM uses WHERE request_id = $1", approval.request_id)


async def hold(desk: Office, approval: Approval) -> None:
    """What the call takes from its payment: parked calls of these tests are admitted without."""
    await desk.ledger.system.execute(
        "INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state) "
        "VALUES ($1, $2, 'issue_refund', 'payment:p', 31240, now(), now(), 'held')",
        approval.request_id,
        TENANT,
    )


# What is shown


async def test_operations_show_alerts_and_reviews_first(desk: Office) -> None:
    waiting = await in_review(desk)
    unknown = await desk.park()
    await lose_answer(desk.ledger, unknown.request_id)
    html = (await (await sign_in(desk, "olga")).get("/operations")).text
    headings = re.findall(r'<h2 id="(\w+)">[^<]*<span class="count">(\d+)</span>', html)
    assert headings[:3] == [("alerts", "1"), ("reviews", "1"), ("unknown", "1")]
    assert headings[-1] == ("calls", "2")
    alerts, reviews, looked_up = html.split("<section")[1:4]
    assert "An outcome could not be found out" in alerts
    assert f'href="{page_of(waiting)}"' in alerts
    assert f'href="{page_of(waiting)}"' in reviews
    assert "Not found at the other system" in reviews
    assert page_of(unknown) not in alerts + reviews
    assert unknown.request_id in looked_up
    assert waiting.request_id not in looked_up


async def test_operations_without_anything_to_see_to_say_so(desk: Office) -> None:
    html = (await (await sign_in(desk, "olga")).get("/operations")).text
    for text in (
        "Nothing happened that you have not seen to.",
        "Nothing waits for you to find out.",
        "There are none.",
    ):
        assert text in html
    assert "badge" not in html


@pytest.mark.parametrize(
    ("kind", "says"),
    [
        ("needs_review", "An outcome could not be found out"),
        ("found_twice", "Refunded twice"),
        ("effect_reversed", "the money was not refunded after all"),
        ("effect_missing", "A refund can no longer be found"),
        ("effect_after_all", "The refund happened after all"),
    ],
)
async def test_an_alert_says_what_happened_until_it_was_seen_to(desk: Office, kind: AlertKind, says: str) -> None:
    approval = await desk.park()
    await lose_answer(desk.ledger, approval.request_id)
    await alert(desk, approval.request_id, kind)
    client = await sign_in(desk, "olga")
    html = (await client.get("/operations")).text
    assert says in html
    assert "What to do:" in html
    form = {"csrf": hidden(html, "csrf"), "seen": _button(html)}
    for _ in range(2):
        response = await client.post("/operations", data=form)
        assert (response.status_code, response.headers["location"]) == (303, "/operations")
    assert says not in (await client.get("/operations")).text
    (row,) = await desk.ledger.system.fetch("SELECT seen_by, seen_at FROM alerts")
    assert row["seen_by"] == "olga"


async def alert(desk: Office, request_id: str, kind: AlertKind, tenant: str = TENANT) -> None:
    await desk.ledger.system.execute(
        "INSERT INTO alerts (tenant, request_id, kind, at) VALUES ($1, $2, $3, now())", tenant, request_id, kind
    )


def _button(html: str) -> str:
    found = re.search(r'name="seen" value="(\d+)"', html)
    assert found is not None
    return found[1]


async def test_alerts_are_seen_to_by_operators_of_the_tenant_alone(desk: Office) -> None:
    approval, foreign = await in_review(desk), await in_review(desk, tenant="other")
    ids = [row["alert_id"] for row in await desk.ledger.system.fetch("SELECT alert_id FROM alerts")]
    olga, ana = await sign_in(desk, "olga"), await sign_in(desk)
    html = (await olga.get("/operations")).text
    assert approval.request_id in html
    assert foreign.request_id not in html
    own = hidden(html, "csrf")
    anas = hidden((await ana.get("/")).text, "csrf")
    assert (await ana.post("/operations", data={"csrf": anas, "seen": str(ids[0])})).status_code == 403
    assert (await olga.post("/operations", data={"seen": str(ids[0])})).status_code == 403
    for nonsense in ("", "x", "-1", "9" * 19, "9" * 400, "٣"):
        assert (await olga.post("/operations", data={"csrf": own, "seen": nonsense})).status_code == 422, nonsense
    for each in (await olga.get("/operations", params={"seen": ids[0]}), await olga.head("/operations")):
        assert each.status_code == 200
    await olga.post("/operations", data={"csrf": own, "seen": str(ids[1])})
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM alerts WHERE seen_at IS NULL") == 2


async def test_only_operators_see_how_many_alerts_are_open(desk: Office) -> None:
    await in_review(desk)
    await in_review(desk, tenant="other")
    badge = '<span class="badge">1<span class="hidden"> open alert</span></span>'
    assert badge in (await (await sign_in(desk, "olga")).get("/")).text
    assert "badge" not in (await (await sign_in(desk)).get("/")).text


async def test_the_page_has_what_it_takes_to_find_out(desk: Office) -> None:
    approval = await in_review(desk)
    html = unescape((await (await sign_in(desk, "olga")).get(page_of(approval))).text)
    for text in (
        approval.title,
        "Not found at the other system",
        operation_of(approval.request_id),
        "counterseal_operation",
        "key_example",
        "pay_0e6eca9d290aa9f9",
        "ord_8f2b91a04c7d",
        "312.40 USD",
        "amount_cents: 31240",
        "The answer was lost",
        "It was looked up, and was not there",
        "GET /v1/refunds: answered 200",
        "An outcome could not be found out",
        f"/approvals/{approval.approval_id}",
    ):
        assert text in html, text
    assert "idempotency_key" not in html
    assert not forbidden(html)


async def test_what_was_found_twice_can_only_have_happened(desk: Office) -> None:
    approval = await in_review(desk, "found_twice")
    client = await sign_in(desk, "olga")
    html = (await client.get(page_of(approval))).text
    assert "There are two refunds where there was to be one" in html
    assert "Deal with the second refund at the gateway" in html
    assert 'value="no"' not in html
    refused = await client.post(page_of(approval), data=await finding(client, approval, happened="no"))
    assert refused.status_code == 422
    assert await stays_in_review(desk, approval)
    assert (await confirmed(client, approval)).status_code == 303


# Settling


async def test_what_happened_counts_once_it_was_confirmed(desk: Office) -> None:
    approval = await in_review(desk)
    await hold(desk, approval)
    client = await sign_in(desk, "olga")
    first = await client.post(page_of(approval), data=await finding(client, approval))
    html = unescape(first.text)
    for text in (
        "312.40 USD count as refunded, under the id re_found.",
        "“Done: refunded 312.40 USD of order ord_8f2b91a04c7d.”",
        EVIDENCE,
        "Type the amount",
    ):
        assert text in html, text
    assert await stays_in_review(desk, approval)
    second = await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": " 312.40 "})
    assert (second.status_code, second.headers["location"]) == (303, page_of(approval))
    record = await desk.ledger.calls.read(approval.request_id)
    assert (record.status, record.code, record.remote_id, record.review) == ("executed", Code.OK, "re_found", None)
    assert record.reply().result == {
        "refund_id": "re_found",
        "order_id": "ord_8f2b91a04c7d",
        "amount_cents": 31_240,
        "currency": "USD",
        "status": "succeeded",
    }
    assert await use_of(desk, approval) == "spent"
    (concluded,) = await conclusions(desk, approval)
    assert (concluded.operator, concluded.happened, concluded.remote_id) == ("olga", True, "re_found")
    assert concluded.evidence == EVIDENCE
    assert desk.temporal.told_to_look == [record.workflow_id]
    shown = (await client.get(page_of(approval))).text
    assert "An outcome could not be found out" not in shown
    assert "Settled by olga: it happened, as <code>re_found</code>" in shown
    assert EVIDENCE.replace("'", "&#39;") in shown
    assert 'name="evidence"' not in shown
    operations = (await client.get("/operations")).text
    assert "Nothing happened that you have not seen to." in operations
    assert "Nothing waits for you to find out." in operations


async def test_what_did_not_happen_can_be_asked_for_again(desk: Office) -> None:
    approval = await in_review(desk)
    await hold(desk, approval)
    client = await sign_in(desk, "olga")
    first = await client.post(page_of(approval), data=await finding(client, approval, happened="no", remote_id=""))
    html = unescape(first.text)
    assert "312.40 USD can be refunded again" in html
    assert "a later refund would be a second one" in html
    assert "“The remote system refused this action; nothing was done." in html
    await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": "312.40"})
    record = await desk.ledger.calls.read(approval.request_id)
    assert (record.status, record.code, record.remote_id) == ("failed", Code.REMOTE_REFUSED, None)
    assert await use_of(desk, approval) == "released"
    (concluded,) = await conclusions(desk, approval)
    assert (concluded.happened, concluded.remote_id) == (False, None)
    assert "Settled by olga: it did not happen" in (await client.get(page_of(approval))).text


async def test_a_change_of_an_order_is_confirmed_by_the_orders_id(desk: Office) -> None:
    arguments = {"order_id": "ord_8f2b91a04c7d", "reason_code": "other", "idempotency_key": "0f" * 16}
    approval = await desk.park(tool="cancel_order", arguments=arguments)
    target: dict[str, JsonValue] = {"order_id": "ord_8f2b91a04c7d", "reason": "other", "address": None}
    await lose_answer(desk.ledger, approval.request_id, target=target)
    await ask_for_review(desk.ledger, approval.request_id)
    client = await sign_in(desk, "olga")
    assert "metadata" not in (await client.get(page_of(approval))).text
    first = await client.post(
        page_of(approval), data=await finding(client, approval, remote_id=operation_of(approval.request_id))
    )
    assert f"The cancellation counts as done, under the id {operation_of(approval.request_id)}." in first.text
    wrong = await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": "312.40"})
    assert wrong.status_code == 422
    await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": "ord_8f2b91a04c7d"})
    record = await desk.ledger.calls.read(approval.request_id)
    assert record.reply().message == "Done: cancelled order ord_8f2b91a04c7d."


@pytest.mark.parametrize("confirmation", ["", "312", "312,40", "312.40 EUR", "31240", "yes", "٣12.40"])
async def test_another_confirmation_records_nothing(desk: Office, confirmation: str) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    response = await confirmed(client, approval, confirmation)
    assert response.status_code == 422
    assert "That is not the amount." in response.text
    # What was found out is still there, to be confirmed.
    assert shown_again(response.text)["evidence"] == EVIDENCE
    assert await stays_in_review(desk, approval)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"remote_id": ""}, "Give the id as the other system shows it"),
        ({"remote_id": "re_1; DROP TABLE calls"}, "Give the id as the other system shows it"),
        ({"remote_id": "r" * 256}, "Give the id as the other system shows it"),
        ({"remote_id": "re_\u202e1"}, "Give the id as the other system shows it"),
        ({"evidence": ""}, "Say how you know"),
        ({"evidence": "  short \r\n\r\n   "}, "Say how you know"),
        ({"evidence": "x" * 2001}, "That is too long"),
        ({"evidence": "x" * 10_000}, "That is too long"),
        ({"happened": "maybe"}, "Say whether it happened"),
        ({"happened": ""}, "Say whether it happened"),
    ],
)
@pytest.mark.parametrize("step", ["finding", "confirmation"])
async def test_a_finding_is_checked_on_both_pages(desk: Office, step: str, changes: dict[str, str], says: str) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    form = await finding(client, approval, **changes)
    if step == "confirmation":
        form["confirmation"] = "312.40"
    response = await client.post(page_of(approval), data=form)
    assert response.status_code == 422
    assert 'role="alert"' in response.text
    assert says in response.text
    assert await stays_in_review(desk, approval)
    if "evidence" in changes:
        assert changes["evidence"].strip() in response.text


async def test_a_refund_that_counts_for_another_call_cannot_count_twice(desk: Office) -> None:
    first, second = await in_review(desk), await in_review(desk)
    client = await sign_in(desk, "olga")
    assert (await confirmed(client, first)).status_code == 303
    response = await client.post(page_of(second), data=await finding(client, second))
    assert response.status_code == 422
    assert f"That id already counts for the request {first.request_id}." in response.text


@pytest.mark.parametrize("happened", ["yes", "no"])
async def test_hostile_evidence_is_inert_and_kept_as_it_was(desk: Office, happened: str) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    hostile = f"<script>alert(1)</script>\"'\r\n{HOSTILE}</textarea>"
    kept = hostile.replace("\r\n", "\n")
    first = await client.post(
        page_of(approval), data=await finding(client, approval, happened=happened, evidence=hostile)
    )
    assert first.status_code == 200
    await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": "312.40"})
    (concluded,) = await conclusions(desk, approval)
    assert concluded.evidence == kept
    story = (await client.get(f"/approvals/{approval.approval_id}")).text
    shown = (await client.get(page_of(approval))).text
    for html in (first.text, story, shown):
        assert not forbidden(html)
        assert "<img" not in html.replace('<img src="/static/seal.svg"', "")
        visible = re.sub(r'<input type="hidden"[^>]*>', "", html)
        assert "‹U+202E›" in visible
        assert not re.search("[\u202e\u202c\u200b\x1b\u2066]", visible)


async def test_nul_in_a_form_is_refused(desk: Office) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    form = await finding(client, approval, evidence=EVIDENCE + "\0")
    assert (await client.post(page_of(approval), data={**form, "confirmation": "312.40"})).status_code == 400
    assert (await client.get("/operations/review/%00")).status_code == 404
    assert await stays_in_review(desk, approval)


# Somebody else, or something else, was first


async def test_the_second_to_settle_records_nothing(desk: Office) -> None:
    approval = await in_review(desk)
    olga, other = await sign_in(desk, "olga"), await sign_in(desk, "olga")
    late = await other.post(page_of(approval), data=await finding(other, approval, happened="no"))
    assert (await confirmed(olga, approval)).status_code == 303
    for form in (shown_again(late.text), {**shown_again(late.text), "confirmation": "312.40"}):
        response = await other.post(page_of(approval), data=form)
        assert response.status_code == 409
        assert "Nothing was recorded." in response.text
        assert "Settled by olga: it happened" in response.text
    assert len(await conclusions(desk, approval)) == 1
    assert len(desk.temporal.told_to_look) == 1


async def test_losing_a_race_to_record_is_said_too(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page finds it in review, and it is found out before the finding gets there."""
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    first = await client.post(page_of(approval), data=await finding(client, approval, happened="no"))
    recorded = Reviews.conclude

    async def beaten(self: Reviews, request_id: str, conclusion: Conclusion) -> tuple[Settled, CallRecord]:
        await confirm(desk.ledger, approval.request_id)
        return await recorded(self, request_id, conclusion)

    monkeypatch.setattr(Reviews, "conclude", beaten)
    response = await client.post(page_of(approval), data={**shown_again(first.text), "confirmation": "312.40"})
    assert response.status_code == 409
    assert "it was found out meanwhile" in response.text
    assert "Executed" in response.text
    assert await conclusions(desk, approval) == []
    assert desk.temporal.told_to_look == []


async def test_what_was_shown_has_to_be_what_still_holds(desk: Office) -> None:
    approval = await in_review(desk, "absent")
    client = await sign_in(desk, "olga")
    first = await client.post(page_of(approval), data=await finding(client, approval, happened="no"))
    await ask_for_review(desk.ledger, approval.request_id, "found_twice")
    for form in (shown_again(first.text), {**shown_again(first.text), "confirmation": "312.40"}):
        response = await client.post(page_of(approval), data=form)
        assert response.status_code == 409
        assert "has changed since you opened the page" in response.text
    assert await stays_in_review(desk, approval)


async def test_it_is_recorded_also_while_temporal_is_away(desk: Office) -> None:
    approval = await in_review(desk)

    async def away() -> None:
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")

    client = await sign_in(desk, "olga")
    desk.temporal.on_signal = away
    assert (await confirmed(client, approval)).status_code == 303
    assert len(await conclusions(desk, approval)) == 1


# Who may not


async def test_another_tenants_call_is_as_unknown_as_none(desk: Office) -> None:
    foreign, parked = await in_review(desk, tenant="other"), await desk.park()
    client = await sign_in(desk, "olga")
    nowhere = await client.get(UNKNOWN)
    assert nowhere.status_code == 404
    for path in (page_of(foreign), page_of(parked), "/operations/review/act_1"):
        there = await client.get(path)
        assert (there.status_code, there.text) == (404, nowhere.text), path
    form = {"csrf": hidden((await client.get("/operations")).text, "csrf"), "because": "absent", "happened": "no"}
    form |= {"evidence": EVIDENCE, "confirmation": "312.40"}
    there, none = await client.post(page_of(foreign), data=form), await client.post(UNKNOWN, data=form)
    assert (there.status_code, there.text) == (none.status_code, none.text)
    assert there.status_code == 404
    assert await stays_in_review(desk, foreign)


async def test_only_operators_settle(desk: Office) -> None:
    approval = await in_review(desk)
    olga, ana = await sign_in(desk, "olga"), await sign_in(desk)
    refused = await ana.get(page_of(approval))
    assert refused.status_code == 403
    assert approval.title not in refused.text
    form = {**await finding(olga, approval), "confirmation": "312.40"}
    form["csrf"] = hidden((await ana.get("/")).text, "csrf")
    assert (await ana.post(page_of(approval), data=form)).status_code == 403
    assert await stays_in_review(desk, approval)


async def test_a_form_from_elsewhere_settles_nothing(desk: Office) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    form = {**await finding(client, approval), "confirmation": "312.40"}
    without = {name: value for name, value in form.items() if name != "csrf"}
    assert (await client.post(page_of(approval), data=without)).status_code == 403
    assert (await client.post(page_of(approval), data={**form, "csrf": "wrong"})).status_code == 403
    foreign = {"sec-fetch-site": "cross-site"}
    assert (await client.post(page_of(approval), data=form, headers=foreign)).status_code == 403
    gone = await browser(desk).post(page_of(approval), data=form)
    assert gone.status_code == 303
    assert parse_qs(urlsplit(gone.headers["location"]).query) == {"next": [page_of(approval)]}
    assert await stays_in_review(desk, approval)


async def test_looking_settles_nothing(desk: Office) -> None:
    approval = await in_review(desk)
    client = await sign_in(desk, "olga")
    before = len(await desk.ledger.calls.events(approval.request_id))
    form = {**await finding(client, approval), "confirmation": "312.40"}
    for response in (
        await client.get(page_of(approval), params=form),
        await client.head(page_of(approval), params=form),
    ):
        assert response.status_code == 200
    assert len(await desk.ledger.calls.events(approval.request_id)) == before
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM alerts WHERE seen_at IS NULL") == 1
    assert await stays_in_review(desk, approval)


# How it reads afterwards


async def test_the_approvals_page_tells_how_it_was_settled(desk: Office) -> None:
    happened, not_happened, open_ = [await in_review(desk) for _ in range(3)]
    client = await sign_in(desk, "olga")
    await confirmed(client, happened)
    await confirmed(client, not_happened, happened="no")
    html = (await client.get(f"/approvals/{happened.approval_id}")).text
    assert "Approved and done" in html
    assert "olga found that out, since its answer was lost." in html
    assert "olga settled that it happened, as re_found: Seen in" in html
    html = (await client.get(f"/approvals/{not_happened.approval_id}")).text
    assert "Approved, but not done" in html
    assert "olga found out that it had not happened." in html
    html = (await client.get(f"/approvals/{open_.approval_id}")).text
    assert "Operators are asked to find out" in html
    assert 'http-equiv="refresh"' not in html


async def test_the_approvals_page_tells_that_it_was_undone(desk: Office) -> None:
    approval = await desk.park()
    await desk.decide(approval, "approve")
    await lose_answer(desk.ledger, approval.request_id)
    await confirm(desk.ledger, approval.request_id)
    exchange = Exchange(
        system="payments", method="GET", path_template="/v1/refunds", reached="response_received", elapsed_ms=1
    )
    undone = EffectReversed(operation_id=operation_of(approval.request_id), remote_id="re_example", exchange=exchange)
    settled = CallSettled(status="failed", code=Code.REMOTE_REFUSED, explanation=Explanation())
    step = Step([undone, settled], alert="effect_reversed")
    await desk.ledger.calls.advance(approval.request_id, lambda record, now: step)
    client = await sign_in(desk, "olga")
    html = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "Approved and done, then undone by the other system" in html
    assert "The other system undid it later" in html
    html = (await client.get(page_of(approval))).text
    assert "Late failure: the money was not refunded after all" in html
    assert 'name="evidence"' not in html


# A real workflow


@pytest.mark.asyncio(loop_scope="session")
@pytest.mark.parametrize("happened", [True, False])
async def test_a_workflow_that_waits_ends_when_the_call_is_settled(api: Api, tenant: Tenant, happened: bool) -> None:
    service, order = api.service, await api.service.outside.order()
    await service.outside.fault("drop_before_read", order)
    token = await tenant.run(order["customer_id"])
    reply = (await api.call(token, refund_arguments(order, 4_999), wait=2)).json()
    assert reply["code"] == "OUTCOME_UNKNOWN"
    ledger = service.core.ledger
    await ask_for_review(ledger, reply["request_id"])
    cookie, csrf = await operator(api, tenant)
    path, sent = f"/operations/review/{reply['request_id']}", {"cookie": cookie}
    form = {"csrf": csrf, "because": "absent", "happened": "yes" if happened else "no", "remote_id": "re_by_hand"}
    form |= {"evidence": EVIDENCE, "confirmation": "49.99"}
    settled = await api.client.post(path, data=form, headers=sent)
    assert settled.status_code == 303, settled.text
    record = await ledger.calls.read(reply["request_id"])
    result = await service.temporal.get_workflow_handle(record.workflow_id).result()
    expected = ("executed", "OK") if happened else ("failed", "REMOTE_REFUSED")
    assert (result["status"], result["code"]) == expected
    after = (await api.get(f"/v1/tool-calls/{reply['request_id']}", token)).json()
    assert (after["status"], after["code"]) == expected
    if happened:
        await service.outside.refund_in_dashboard(order, 4_999)
    # The amount is spent for good, or there for another refund.
    again = (await api.call(token, refund_arguments(order, 9_000))).json()
    assert again["code"] == ("REFUND_EXCEEDS_PAID" if happened else "OK")
    assert await service.outside.sends(record) == 1


async def operator(api: Api, tenant: Tenant) -> tuple[str, str]:
    """(cookie header, form token) of an operator who is signed in; hashing a password takes long."""
    name, secret, csrf = f"olga{secrets.token_hex(4)}", secrets.token_urlsafe(32), secrets.token_urlsafe(32)
    await api.person(tenant.name, name, "operator")
    await api.service.core.ledger.system.execute(
        "INSERT INTO sessions (hash, tenant, username, csrf, expires_at) VALUES ($1, $2, $3, $4, now() + '1 hour')",
        token_hash(secret),
        tenant.name,
        name,
        csrf,
    )
    return f"counterseal_session={secret}", csrf


def test_every_alert_is_told_in_plain_words() -> None:
    for kind in get_args(AlertKind):
        for operation in ("refund", "cancel"):
            assert alert_told(kind, operation).headline
