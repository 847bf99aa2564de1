"""Kill switches turned by operators: what they are shown first, what is refused, what really stops and comes back."""

import asyncio
import re
import time
from contextlib import AsyncExitStack
from datetime import timedelta
from html import unescape
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from ledger.database import Pool
from ledger.principals import Principal
from ledger.switches import stream_of
from schemas.events import SwitchChanged
from schemas.switches import PERMIT, Deadlines, SwitchOff
from tests.api.conftest import Api, Tenant
from tests.api.parked import TENANT, Office, lose_answer
from tests.api.test_pages import HOSTILE, browser, hidden, sign_in
from tests.api.test_review import operator
from tests.service import refund_arguments

PATH = "/operations/switches"
TOOL = "tool:issue_refund"
REASON = "The gateway pays out twice."


@pytest.fixture
async def olga(desk: Office) -> httpx.AsyncClient:
    return await sign_in(desk, "olga")


async def off_already(
    desk: Office, name: str = TOOL, *, tenant: str = TENANT, by: str = "otto", deadlines: Deadlines = "run"
) -> None:
    """As it stands after somebody turned it off ten minutes ago."""
    await desk.ledger.system.execute(
        "INSERT INTO switches VALUES ($1, $2, now() - interval '10 minutes', $3, $4, $5)",
        tenant,
        name,
        by,
        REASON,
        deadlines,
    )


async def off(desk: Office) -> list[tuple[str, str]]:
    return [(each.tenant, each.name) for each in await desk.ledger.switches.off(None)]


async def only(desk: Office) -> SwitchOff:
    (found,) = await desk.ledger.switches.off(None)
    return found


async def changes(desk: Office, tenant: str = TENANT) -> list[SwitchChanged]:
    query = "SELECT count(*) FROM events WHERE request_id = $1"
    if not await desk.ledger.system.fetchval(query, stream_of(tenant)):
        return []
    events = await desk.ledger.calls.events(stream_of(tenant))
    return [event for _, event in events if isinstance(event, SwitchChanged)]


async def asked(client: httpx.AsyncClient, switch: str = TOOL, **more: str) -> httpx.Response:
    """The form as it is sent first."""
    csrf = hidden((await client.get(PATH)).text, "csrf")
    form = {"csrf": csrf, "turn": "off", "switch": switch, "id": "", "deadlines": "run", "reason": REASON, **more}
    return await client.post(PATH, data=form)


def confirmation(html: str) -> dict[str, str]:
    """What the second page sends."""
    fields = {name: hidden(html, name) for name in ("csrf", "turn", "switch", "deadlines", "reason", "seen")}
    return {**fields, "confirmed": "yes"}


async def turn_off(client: httpx.AsyncClient, switch: str = TOOL, **more: str) -> httpx.Response:
    """Both pages, one after the other."""
    first = await asked(client, switch, **more)
    assert first.status_code == 200, first.text
    return await client.post(PATH, data=confirmation(first.text))


async def turning_on(client: httpx.AsyncClient, switch: str = TOOL, reason: str = "It is mended.") -> dict[str, str]:
    """What the page that turns it on sends."""
    html = (await client.get(PATH, params={"on": switch})).text
    return {**{name: hidden(html, name) for name in ("csrf", "turn", "switch", "seen")}, "reason": reason}


def text_of(html: str) -> str:
    """As it reads, without markup."""
    return re.sub(r" (?=[,.:;])", "", " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split()))


# Turning off


async def test_the_first_page_shows_what_it_would_stop_and_stops_nothing(desk: Office, olga: httpx.AsyncClient) -> None:
    await desk.park()
    await desk.park(tenant="other")
    decided, unknown = await desk.park(), await desk.park()
    await desk.decide(decided, "approve")
    await lose_answer(desk.ledger, unknown.request_id)
    for tools in (["issue_refund"], ["cancel_order"]):
        await desk.ledger.principals.open_run(
            Principal("service", TENANT, "runtime"),
            agent_id="support-bot",
            actor_id="user_17",
            customer_id="cus_1",
            tools=tools,
            seconds=600,
        )
    response = await asked(olga, "class:money_movement", deadlines="pause")
    said = text_of(response.text)
    assert response.status_code == 200
    assert "Turn off: Tools that move money?" in said
    assert re.search(r"Covers [^.]*Issue a refund", said)
    assert "1 open run can ask for this." in said
    assert "CAPABILITY_DISABLED" in said
    assert "1 call waits for a person. Denying goes on, approving does not while it is off." in said
    assert "Paused while it is off: what waits for a person keeps the time that it has left." in said
    assert "1 call is decided and not sent yet. Refused for good" in said
    assert "1 outcome is not known. Looking up goes on, but nothing is sent again." in said
    assert REASON in said
    assert "This capability is switched off until an operator turns it on" in said
    assert (await off(desk), await changes(desk)) == ([], [])


async def test_it_is_off_once_confirmed_and_acknowledged(desk: Office, olga: httpx.AsyncClient) -> None:
    first = await asked(olga, deadlines="pause")
    began = time.monotonic()
    response = await olga.post(PATH, data=confirmation(first.text))
    assert (response.status_code, response.headers["location"]) == (303, PATH)
    assert time.monotonic() - began >= PERMIT.total_seconds()
    found = await only(desk)
    assert (found.tenant, found.name, found.off_by, found.reason) == (TENANT, TOOL, "olga", REASON)
    assert found.deadlines == "pause"
    (event,) = await changes(desk)
    assert (event.switch, event.off, event.by, event.reason, event.deadlines) == (TOOL, True, "olga", REASON, "pause")
    said = text_of((await olga.get(PATH)).text)
    assert f"Issue a refund {TOOL} {REASON} off for under 1 min by olga deadlines paused" in said


async def test_sent_twice_it_is_turned_once(desk: Office, olga: httpx.AsyncClient) -> None:
    form = confirmation((await asked(olga)).text)
    began = time.monotonic()
    responses = await asyncio.gather(*(olga.post(PATH, data=form) for _ in range(2)))
    assert [each.status_code for each in responses] == [303, 303]
    assert time.monotonic() - began >= PERMIT.total_seconds()
    assert len(await changes(desk)) == 1


async def test_what_somebody_else_turned_off_meanwhile_is_shown_first(desk: Office, olga: httpx.AsyncClient) -> None:
    form = confirmation((await asked(olga)).text)
    await off_already(desk)
    response = await olga.post(PATH, data=form)
    assert response.status_code == 409
    assert "It was turned by somebody else since you opened the page." in response.text
    assert "It is off already, for 10 min, by otto" in text_of(response.text)
    assert (await only(desk)).off_by == "otto"
    assert (await olga.post(PATH, data=confirmation(response.text))).status_code == 303
    assert (await only(desk)).off_by == "olga"


@pytest.mark.parametrize(
    ("form", "says"),
    [
        ({"switch": ""}, "Say what to turn off."),
        ({"switch": "agent"}, "Give the id of the agent."),
        ({"switch": "agent", "id": "two words"}, "That cannot be turned off"),
        ({"switch": "run", "id": "x" * 201}, "That cannot be turned off"),
        ({"switch": "all", "id": "support-bot"}, "An id is only for one agent or one run"),
        ({"switch": "tool:transfer_all"}, "There is no such tool here."),
        ({"switch": "class:nothing"}, "That cannot be turned off"),
        ({"switch": HOSTILE}, "That cannot be turned off"),
        ({"reason": " \n "}, "Say why you turn it off."),
        ({"reason": "x" * 501}, "The reason is too long"),
        ({"deadlines": "forever"}, "Say what becomes of the deadlines"),
    ],
)
async def test_what_is_missing_or_wrong_is_said(
    desk: Office, olga: httpx.AsyncClient, form: dict[str, str], says: str
) -> None:
    for confirmed in ({}, {"confirmed": "yes", "seen": ""}):
        response = await asked(olga, **{"switch": TOOL, **form, **confirmed})
        assert response.status_code == 422
        assert says in response.text
        assert 'role="alert"' in response.text
        assert await off(desk) == []


async def test_agents_runs_and_the_vault_have_words_of_their_own(desk: Office, olga: httpx.AsyncClient) -> None:
    await desk.park(agent_id="helper")
    said = text_of((await asked(olga, "agent", id=" helper ")).text)
    assert "Turn off: The agent helper?" in said
    assert "1 call waits for a person." in said
    assert "Turn off: The run run_1?" in text_of((await asked(olga, "run", id="run_1")).text)
    unknown = await desk.park()
    await lose_answer(desk.ledger, unknown.request_id)
    said = text_of((await asked(olga, "vault")).text)
    assert "Turn off: The vault: no credential is given out?" in said
    assert "VAULT_LOCKED" in said
    assert "Not even looking up is possible while no credential is given out." in said
    assert "The credential vault is locked, so nothing was sent." in said


async def test_a_hostile_reason_stays_text(desk: Office, olga: httpx.AsyncClient) -> None:
    first = await asked(olga, reason=HOSTILE)
    assert confirmation(first.text)["reason"] == HOSTILE.replace("\r\n", "\n")
    assert (await olga.post(PATH, data=confirmation(first.text))).status_code == 303
    assert (await only(desk)).reason == HOSTILE
    approval = await desk.park()
    pages = [first.text]
    for path in (PATH, f"{PATH}?on={TOOL}", "/operations", f"/approvals/{approval.approval_id}"):
        pages.append((await olga.get(path)).text)
    for html in pages:
        assert "&lt;img src=x" in html
        assert "<img src=x" not in html
        assert "‹U+202E›" in html


# Turning on


async def test_turning_on_says_what_comes_back(desk: Office, olga: httpx.AsyncClient) -> None:
    approval = await desk.park()
    await off_already(desk, deadlines="pause")
    await off_already(desk, "class:money_movement", tenant="*")
    response = await olga.get(PATH, params={"on": TOOL})
    said = text_of(response.text)
    assert "Turn on again: Issue a refund?" in said
    assert "1 call waits for a person. Approving goes on, with the time that was left when it was turned off." in said
    assert "Other switches are off too" in said
    assert "class:money_movement, for everyone" in said
    form = await turning_on(olga)
    assert (await olga.post(PATH, data={**form, "reason": " "})).status_code == 422
    assert len(await off(desk)) == 2
    response = await olga.post(PATH, data=form)
    assert (response.status_code, response.headers["location"]) == (303, PATH)
    assert await off(desk) == [("*", "class:money_movement")]
    (event,) = await changes(desk)
    assert (event.switch, event.off, event.by, event.reason) == (TOOL, False, "olga", "It is mended.")
    now = await desk.ledger.approvals.get(TENANT, approval.approval_id)
    assert now is not None
    assert 590 < (now.expires_at - approval.expires_at).total_seconds() < 660


async def test_turned_on_twice_it_is_turned_once(desk: Office, olga: httpx.AsyncClient) -> None:
    await off_already(desk)
    form = await turning_on(olga)
    assert (await olga.post(PATH, data=form)).status_code == 303
    again = await olga.post(PATH, data=form)
    assert again.status_code == 409
    assert "It is on already" in again.text
    assert len(await changes(desk)) == 1
    assert (await olga.get(PATH, params={"on": TOOL})).status_code == 404


async def test_what_was_turned_off_anew_is_not_turned_on_unread(desk: Office, olga: httpx.AsyncClient) -> None:
    await off_already(desk)
    form = await turning_on(olga)
    await desk.ledger.system.execute("UPDATE switches SET off_by = 'breaker', off_at = now(), reason = '200 in 1h'")
    response = await olga.post(PATH, data=form)
    assert response.status_code == 409
    assert "Breaker tripped" in response.text
    assert (await only(desk)).off_by == "breaker"


async def test_a_tripped_breaker_says_what_it_takes(desk: Office, olga: httpx.AsyncClient) -> None:
    await off_already(desk, "class:money_movement", by="breaker")
    for path in (PATH, "/operations"):
        said = text_of((await olga.get(path)).text)
        assert "Breaker tripped" in said
        assert "What to do: find out why so much was asked for at once." in said
    said = text_of((await olga.get(PATH, params={"on": "class:money_movement"})).text)
    assert "The breaker counts from now on" in said
    assert "by the breaker" in said


# Who may, and how


async def test_only_operators(desk: Office) -> None:
    await off_already(desk)
    nobody, ana = browser(desk), await sign_in(desk)
    for client, status in ((nobody, 303), (ana, 403)):
        token = hidden((await ana.get("/")).text, "csrf")
        assert (await client.get(PATH)).status_code == status
        assert (await client.get(PATH, params={"on": TOOL})).status_code == status
        for form in ({"turn": "off", "switch": "all", "confirmed": "yes"}, {"turn": "on", "switch": TOOL}):
            sent = {"csrf": token, "reason": REASON, "deadlines": "run", "seen": "", **form}
            response = await client.post(PATH, data=sent)
            assert response.status_code == status
            if status == 303:
                assert parse_qs(urlsplit(response.headers["location"]).query) == {"next": [PATH]}
    assert (await off(desk), await changes(desk)) == ([(TENANT, TOOL)], [])


@pytest.mark.parametrize("headers", [{}, {"sec-fetch-site": "cross-site"}, {"origin": "https://evil.example"}])
async def test_only_our_own_forms(desk: Office, olga: httpx.AsyncClient, headers: dict[str, str]) -> None:
    form = confirmation((await asked(olga)).text)
    if not headers:
        form["csrf"] = "guessed"
    assert (await olga.post(PATH, data=form, headers=headers)).status_code == 403
    assert (await off(desk), await changes(desk)) == ([], [])


async def test_looking_changes_nothing(desk: Office, olga: httpx.AsyncClient) -> None:
    await off_already(desk)
    before = await desk.ledger.system.fetch("SELECT * FROM switches")
    for method in ("GET", "HEAD"):
        for query in ("", f"?on={TOOL}", f"?turn=on&switch={TOOL}&reason=x", "?turn=off&switch=all&confirmed=yes"):
            assert (await olga.request(method, PATH + query)).status_code == 200
    assert await desk.ledger.system.fetch("SELECT * FROM switches") == before
    assert await changes(desk) == []


@pytest.mark.parametrize(
    "form", [{"switch": "tenant:other"}, {"switch": "tenant:other", "confirmed": "yes", "seen": ""}]
)
async def test_another_tenant_is_not_theirs_to_turn_off(
    desk: Office, olga: httpx.AsyncClient, form: dict[str, str]
) -> None:
    response = await asked(olga, **form)
    assert response.status_code == 403
    assert "That switch is not yours to turn" in response.text
    assert await off(desk) == []


async def test_what_is_off_for_everyone_is_shown_and_not_theirs_to_turn_on(
    desk: Office, olga: httpx.AsyncClient
) -> None:
    await off_already(desk, "all", tenant="*", by="root")
    await off_already(desk, "agent:secret-of-others", tenant="other")
    html = (await olga.get(PATH)).text
    assert "by whoever runs the service, for everyone" in text_of(html)
    assert "Turn on…" not in html
    assert "secret-of-others" not in html
    assert (await olga.get(PATH, params={"on": "all"})).status_code == 403
    token = hidden(html, "csrf")
    for name, status in (("all", 403), ("agent:secret-of-others", 409)):
        form = {"csrf": token, "turn": "on", "switch": name, "reason": "x", "seen": ""}
        assert (await olga.post(PATH, data=form)).status_code == status
    assert await off(desk) == [("*", "all"), ("other", "agent:secret-of-others")]
    # Their own of the same name is another switch.
    assert (await turn_off(olga, "all")).status_code == 303
    assert (TENANT, "all") in await off(desk)


async def test_neither_on_nor_off_is_refused(desk: Office, olga: httpx.AsyncClient) -> None:
    assert (await asked(olga, turn="sideways")).status_code == 422
    assert await off(desk) == []


async def test_it_turns_while_the_other_connections_are_taken(desk: Office, olga: httpx.AsyncClient) -> None:
    """All but the one that signing in takes for a moment."""

    async def take(stack: AsyncExitStack, pool: Pool, count: int) -> None:
        for _ in range(count):
            await stack.enter_async_context(pool.acquire())

    async with asyncio.timeout(20), AsyncExitStack() as stack:
        await take(stack, desk.ledger.database.tenant(TENANT), 7)
        await take(stack, desk.ledger.system, 2)
        assert (await turn_off(olga)).status_code == 303
        assert (await olga.post(PATH, data=await turning_on(olga))).status_code == 303
    assert [event.off for event in await changes(desk)] == [True, False]


# What approvers see


async def test_what_is_switched_off_is_not_offered_for_approval(desk: Office, olga: httpx.AsyncClient) -> None:
    covered = await desk.park()
    other = await desk.park(tool="cancel_order", arguments={"order_id": "ord_1", "idempotency_key": "k"})
    client = await sign_in(desk)
    path = f"/approvals/{covered.approval_id}"
    before = (await client.get(path)).text
    assert "Switched off" not in before
    stale = {name: hidden(before, name) for name in ("csrf", "action_digest")} | {"decision": "approve"}
    await off_already(desk)
    html = (await client.get(path)).text
    said = text_of(html)
    assert "Switched off: approving now would be refused." in said
    assert f"Issue a refund: off for 10 min, by otto. {REASON}" in said
    assert "It runs on while it is switched off." in said
    assert 'value="approve"' not in html
    assert 'value="deny"' in html
    response = await client.post(f"{path}/decision", data=stale)
    assert response.status_code == 409
    assert "It is switched off now" in response.text
    assert desk.temporal.signals == []
    html = (await client.get(f"/approvals/{other.approval_id}")).text
    assert "Switched off" not in html
    assert 'value="approve"' in html
    denied = await client.post(f"{path}/decision", data={**stale, "decision": "deny", "reason": "Not now."})
    assert denied.status_code == 303
    assert "Switched off" not in (await client.get(path)).text


@pytest.mark.parametrize(
    "name", ["all", f"tenant:{TENANT}", "class:money_movement", "agent:support-bot", "run", "vault"]
)
async def test_every_switch_that_covers_a_call_is_shown_with_it(desk: Office, name: str) -> None:
    approval = await desk.park()
    await off_already(desk, f"run:{approval.run_id}" if name == "run" else name, tenant="*", by="root")
    html = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    assert "Switched off: approving now would be refused." in html
    assert 'value="approve"' not in html
    # What the service's own people write about everyone is not for everyone to read.
    assert "by whoever runs the service, for everyone" in html
    assert REASON not in html


async def test_what_covers_other_calls_is_not_shown(desk: Office) -> None:
    approval = await desk.park()
    for tenant, name in ((TENANT, "tool:cancel_order"), (TENANT, "agent:another"), ("other", "all")):
        await off_already(desk, name, tenant=tenant)
    html = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    assert "Switched off" not in html
    assert 'value="approve"' in html


async def test_a_paused_deadline_is_told_as_paused(desk: Office) -> None:
    waiting = await desk.park(expires_in=timedelta(hours=5, minutes=1))
    overdue = await desk.park(expires_in=timedelta(minutes=-4))
    await off_already(desk, deadlines="pause")
    client = await sign_in(desk)
    said = text_of((await client.get(f"/approvals/{waiting.approval_id}")).text)
    assert "Paused while it is switched off. From when it is on again, 5 h 10 min are left to decide." in said
    html = (await client.get(f"/approvals/{overdue.approval_id}")).text
    assert "5 min are left to decide." in text_of(html)
    assert "It cannot be decided now." in html
    assert "Passed" not in html
    assert 'value="deny"' not in html


# The whole service


@pytest.mark.asyncio(loop_scope="session")
async def test_what_is_turned_off_stops_and_comes_back(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    token = await tenant.run(order["customer_id"])
    cookie, csrf = await operator(api, tenant)
    sent = {"cookie": cookie}

    async def turn(**form: str) -> None:
        response = await api.client.post(PATH, data={"csrf": csrf, **form}, headers=sent)
        assert response.status_code == 303, response.text

    await turn(turn="off", switch="class:money_movement", deadlines="run", reason=REASON, confirmed="yes", seen="")
    reply = (await api.call(token, refund_arguments(order, 4_999))).json()
    assert (reply["status"], reply["code"]) == ("refused", "CAPABILITY_DISABLED")
    page = await api.client.get(PATH, params={"on": "class:money_movement"}, headers=sent)
    assert "1 open run can ask for this again." in page.text
    await turn(turn="on", switch="class:money_movement", reason="Mended.", seen=hidden(page.text, "seen"))
    reply = (await api.call(token, refund_arguments(order, 4_999))).json()
    assert (reply["status"], reply["code"]) == ("executed", "OK")
