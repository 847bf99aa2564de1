"""Who is reading what waits: said, seen by others, taken over, and never a lock on anything."""

from collections.abc import AsyncIterator
from html import unescape

import httpx
import pytest

from schemas.decisions import Approval, ClaimedBy
from tests.api.parked import TENANT, Office
from tests.api.test_pages import event_types, form_of, hidden, post_decision, sign_in


@pytest.fixture
async def ben(desk: Office) -> AsyncIterator[httpx.AsyncClient]:
    client = await sign_in(desk, "ben")
    yield client
    await client.aclose()


async def _send(client: httpx.AsyncClient, approval: Approval, what: str, **fields: str) -> httpx.Response:
    path = f"/approvals/{approval.approval_id}"
    csrf = hidden((await client.get(path)).text, "csrf")
    return await client.post(f"{path}/{what}", data={"csrf": csrf, **fields})


async def _claimed_by(desk: Office, approval: Approval) -> ClaimedBy | None:
    found = await desk.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    return found.claimed_by


async def test_others_see_who_is_reading_it_and_do_not_decide_it(
    desk: Office, ana: httpx.AsyncClient, ben: httpx.AsyncClient
) -> None:
    approval = await desk.park()
    path = f"/approvals/{approval.approval_id}"
    late = await form_of(ben, approval)
    before = await event_types(desk, approval)
    claimed = await _send(ana, approval, "claim")
    assert (claimed.status_code, claimed.headers["location"]) == (303, path)
    hers, his = (await ana.get(path)).text, (await ben.get(path)).text
    assert "You do," in hers
    assert 'value="approve"' in hers
    assert "Ana Example is reading this" in his
    assert 'value="approve"' not in his
    assert 'value="deny"' not in his
    assert "Read by Ana Example for " in (await ben.get("/")).text
    assert "Read by you for " in (await ana.get("/")).text
    for verdict in ({"decision": "approve"}, {"decision": "deny", "reason": "no"}):
        answer = await post_decision(ben, approval, late | verdict)
        assert answer.status_code == 409
        assert "Ana Example is reading this, so your decision was not taken." in answer.text
    less = {"amount_cents": "250.00", "reason_code": "goodwill", "reason": "half is fair"}
    assert (await _send(ben, approval, "amendment", **less)).status_code == 409
    assert (await _send(ben, approval, "claim")).status_code == 409
    assert desk.temporal.signals == []
    assert set(await event_types(desk, approval)) - set(before) <= {"approval.viewed"}, "the chain has no claims"
    form = await form_of(ana, approval)
    assert (await post_decision(ana, approval, form | {"decision": "approve"})).status_code == 303


async def test_whoever_takes_it_over_decides_it(desk: Office, ana: httpx.AsyncClient, ben: httpx.AsyncClient) -> None:
    approval = await desk.park()
    await _send(ana, approval, "claim")
    assert (await _send(ben, approval, "claim", take_over="yes")).status_code == 303
    by = await _claimed_by(desk, approval)
    assert by is not None
    assert (by.username, by.display_name) == ("ben", "Ben Example")
    # Letting go of what is another's by now takes nothing from them.
    assert (await _send(ana, approval, "release")).status_code == 303
    assert await _claimed_by(desk, approval) == by
    assert "Ben Example is reading this" in (await ana.get(f"/approvals/{approval.approval_id}")).text
    form = await form_of(ben, approval)
    assert (await post_decision(ben, approval, form | {"decision": "deny", "reason": "no"})).status_code == 303
    assert await _claimed_by(desk, approval) is None


async def test_a_claim_ends_by_itself_and_when_it_is_let_go(
    desk: Office, ana: httpx.AsyncClient, ben: httpx.AsyncClient
) -> None:
    approval = await desk.park()
    await _send(ana, approval, "claim")
    first = await _claimed_by(desk, approval)
    await _send(ana, approval, "claim")
    again = await _claimed_by(desk, approval)
    assert first is not None
    assert again is not None
    assert (again.since, again.until > first.until) == (first.since, True)
    await _send(ana, approval, "release")
    assert await _claimed_by(desk, approval) is None
    await _send(ana, approval, "claim")
    await desk.ledger.system.execute("UPDATE claims SET expires_at = now()")
    assert await _claimed_by(desk, approval) is None
    assert (await _send(ben, approval, "claim")).status_code == 303
    by = await _claimed_by(desk, approval)
    assert by is not None
    assert by.username == "ben"


async def test_the_second_person_is_not_kept_out_by_the_first(
    desk: Office, ana: httpx.AsyncClient, ben: httpx.AsyncClient
) -> None:
    approval = await desk.park(people=2)
    await _send(ana, approval, "claim")
    form = await form_of(ana, approval)
    assert (await post_decision(ana, approval, form | {"decision": "approve"})).status_code == 303
    assert await _claimed_by(desk, approval) is None
    form = await form_of(ben, approval)
    assert (await post_decision(ben, approval, form | {"decision": "approve"})).status_code == 303
    assert desk.temporal.verdicts() == ["approve"]


async def test_it_is_for_those_who_may_decide_it_and_while_it_waits(desk: Office, ana: httpx.AsyncClient) -> None:
    for changes in ({"agent_id": "Ana"}, {"approvers": "legal"}):
        approval = await desk.park(**changes)
        assert "I am reading this" not in (await ana.get(f"/approvals/{approval.approval_id}")).text
        assert (await _send(ana, approval, "claim")).status_code == 403
    decided = await desk.park()
    await desk.decide(decided, "deny", reason="no")
    assert (await _send(ana, decided, "claim")).status_code == 409
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM claims") == 0


async def test_looking_claims_nothing_and_a_form_from_elsewhere_neither(desk: Office, ana: httpx.AsyncClient) -> None:
    approval, foreign = await desk.park(), await desk.park(tenant="other")
    path = f"/approvals/{approval.approval_id}"
    for what in ("claim", "release"):
        assert (await ana.get(f"{path}/{what}")).status_code == 405
        assert (await ana.post(f"{path}/{what}", data={"take_over": "yes"})).status_code == 403
    csrf = hidden((await ana.get(path)).text, "csrf")
    for what in ("claim", "release"):
        answer = await ana.post(f"/approvals/{foreign.approval_id}/{what}", data={"csrf": csrf})
        assert answer.status_code == 404
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM claims") == 0


async def test_what_somebody_calls_themselves_is_inert(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    await desk.ledger.system.execute(
        "UPDATE users SET display_name = $1 WHERE username = 'ben'", "<b>Ana</b>\u202e {{7*7}}"
    )
    ben = await sign_in(desk, "ben")
    await _send(ben, approval, "claim")
    form = await ana.get(f"/approvals/{approval.approval_id}")
    sent = {"csrf": hidden(form.text, "csrf"), "action_digest": approval.action_digest, "decision": "approve"}
    answer = await post_decision(ana, approval, sent)
    for page in (form, answer, await ana.get("/")):
        assert "<b>" not in page.text
        assert "\u202e" not in page.text
        assert "{{7*7}}" in unescape(page.text)
