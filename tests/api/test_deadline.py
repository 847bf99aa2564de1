"""More time for an approval that waits, on the web form and for other consoles."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from html import unescape
from types import MappingProxyType

import httpx
import pytest

from api.deciding import Decider
from api.extending import extend, later
from ledger.approvals import MOST_AHEAD
from schemas.decisions import Approval
from schemas.events import ApprovalExtended
from tests.api.parked import TENANT, Office
from tests.api.test_pages import HOSTILE, event_types, hidden

NOW = datetime(2026, 11, 30, 9, 0, tzinfo=UTC)


async def _send(
    client: httpx.AsyncClient, approval: Approval, until: datetime, fields: Mapping[str, str] = MappingProxyType({})
) -> httpx.Response:
    path = f"/approvals/{approval.approval_id}"
    sent = {
        "csrf": hidden((await client.get(path)).text, "csrf"),
        "until": until.isoformat(),
        "reason": "the bank calls",
    }
    return await client.post(f"{path}/deadline", data={**sent, **fields})


async def _deadline(desk: Office, approval: Approval) -> datetime:
    found = await desk.ledger.approvals.get(approval.tenant, approval.approval_id)
    assert found is not None
    return found.expires_at


def _after(approval: Approval, **more: int) -> datetime:
    return approval.expires_at.replace(microsecond=0) + timedelta(**more)


def test_what_is_offered_is_later_whole_and_within_a_week() -> None:
    offered = dict(later(NOW + timedelta(hours=2, microseconds=7), NOW))
    assert offered == {
        timedelta(hours=1): NOW + timedelta(hours=3),
        timedelta(hours=4): NOW + timedelta(hours=6),
        timedelta(days=1): NOW + timedelta(hours=26),
        timedelta(days=3): NOW + timedelta(hours=74),
    }
    assert [more for more, _ in later(NOW + timedelta(days=5), NOW)] == list(offered)[:3]
    assert later(NOW + MOST_AHEAD, NOW) == []
    # Paused by a switch, a deadline may lie behind: what would, too, is no time at all.
    assert [more for more, _ in later(NOW - timedelta(hours=5), NOW)] == [timedelta(days=1), timedelta(days=3)]


async def test_what_is_chosen_on_the_page_is_the_deadline_then(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park(expires_in=timedelta(hours=5))
    path = f"/approvals/{approval.approval_id}"
    page = (await ana.get(path)).text
    until = _after(approval, hours=4)
    assert f'<option value="{until.isoformat()}">4 h, until ' in page
    answer = await _send(ana, approval, until, {"reason": "The bank\r\ncalls back."})
    assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert await _deadline(desk, approval) == until
    (event,) = [e for _, e in await desk.ledger.calls.events(approval.request_id) if isinstance(e, ApprovalExtended)]
    assert (event.principal, event.expires_at, event.reason) == ("ana", until, "The bank\ncalls back.")
    page = unescape((await ana.get(path)).text)
    assert "ana gave it more time, until " in page
    assert 'value="approve"' in page
    # Sent twice it counts once.
    again = await _send(ana, approval, until)
    assert again.status_code == 409
    assert "It has as much time already" in again.text
    assert (await event_types(desk, approval)).count("approval.extended") == 1
    assert desk.temporal.signals == []


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"reason": " \r\n "}, "Say why it needs more time."),
        ({"reason": "x" * 2001}, "too long"),
        ({"until": ""}, "not a time"),
        ({"until": "tomorrow"}, "not a time"),
        ({"until": "2026-12-01T10:00:00"}, "not a time"),
        ({"until": HOSTILE.replace("\x1b", "")}, "not a time"),
        ({"until": "9999-12-31T23:59:59+00:00"}, "at most 7 days"),
    ],
)
async def test_what_is_not_taken_is_said_and_changes_nothing(
    desk: Office, ana: httpx.AsyncClient, fields: dict[str, str], said: str
) -> None:
    approval = await desk.park()
    answer = await _send(ana, approval, _after(approval, hours=1), fields)
    assert answer.status_code == 422
    assert said in answer.text
    assert fields.get("reason", "").strip() in answer.text, "nothing that was typed is lost"
    assert await _deadline(desk, approval) == approval.expires_at
    assert "approval.extended" not in await event_types(desk, approval)


async def test_a_deadline_is_at_most_a_week_away(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    week = (datetime.now(UTC) + MOST_AHEAD).replace(microsecond=0)
    assert (await _send(ana, approval, week + timedelta(minutes=2))).status_code == 422
    assert (await _send(ana, approval, week)).status_code == 303
    assert "It has as much time as it can have" in (await ana.get(f"/approvals/{approval.approval_id}")).text


async def test_an_earlier_deadline_and_a_passed_one_stay_as_they_are(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    for until in (_after(approval), _after(approval, hours=-1), datetime.now(UTC).replace(microsecond=0)):
        assert (await _send(ana, approval, until)).status_code == 409
    passed = await desk.park(expires_in=timedelta(seconds=-1))
    page = await ana.get(f"/approvals/{passed.approval_id}")
    assert "Give it more time" not in page.text
    answer = await _send(ana, passed, _after(passed, hours=1))
    assert answer.status_code == 409
    assert "The deadline has passed" in answer.text
    for each in (approval, passed):
        assert await _deadline(desk, each) == each.expires_at


async def test_it_is_for_those_who_may_decide_it_whatever_they_decide(desk: Office, ana: httpx.AsyncClient) -> None:
    for changes in ({"agent_id": "Ana"}, {"approvers": "legal"}):
        approval = await desk.park(**changes)
        assert "Give it more time" not in (await ana.get(f"/approvals/{approval.approval_id}")).text
        assert (await _send(ana, approval, _after(approval, hours=1))).status_code == 403
        assert await _deadline(desk, approval) == approval.expires_at
    approval = await desk.park()
    path, until = f"/approvals/{approval.approval_id}/deadline", _after(approval, hours=1)
    unsigned = {"until": until.isoformat(), "reason": "why"}
    assert (await ana.post(path, data=unsigned)).status_code == 403
    assert (await ana.get(path)).status_code == 405
    foreign = await desk.park(tenant="other")
    csrf = hidden((await ana.get(f"/approvals/{approval.approval_id}")).text, "csrf")
    answer = await ana.post(f"/approvals/{foreign.approval_id}/deadline", data=unsigned | {"csrf": csrf})
    assert answer.status_code == 404
    for each in (approval, foreign):
        assert await _deadline(desk, each) == each.expires_at


async def test_the_ledger_asks_again_who_it_is(desk: Office) -> None:
    """Between the look and the change a person may have been disabled."""
    approval = await desk.park()
    await desk.ledger.principals.disable_user("ana")
    ana, until = Decider(TENANT, "ana", frozenset({"finance"})), _after(approval, hours=1)
    extended = await extend(desk.app.state.context, ana, approval.approval_id, until, reason="why")
    assert extended.refused == "not_yours"
    assert await _deadline(desk, approval) == approval.expires_at


async def test_what_was_decided_gets_no_more_time(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park()
    await desk.decide(approval, "deny", reason="no")
    answer = await _send(ana, approval, _after(approval, hours=1))
    assert answer.status_code == 409
    assert "already decided" in answer.text


async def test_a_paused_deadline_that_lies_behind_can_be_moved(desk: Office, ana: httpx.AsyncClient) -> None:
    approval = await desk.park(expires_in=timedelta(seconds=-1))
    await desk.ledger.switches.turn_off(TENANT, "tool:issue_refund", by="olga", reason="a look", deadlines="pause")
    until = _after(approval, hours=4)
    assert (await _send(ana, approval, until)).status_code == 303
    assert await _deadline(desk, approval) == until
