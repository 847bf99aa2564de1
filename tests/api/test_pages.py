"""The form over ASGI and a real ledger: who sees and does what, what is refused, and what every page carries."""

import asyncio
import re
from collections import Counter
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import httpx
import pytest
from babel.dates import format_datetime

from api.deciding import Decider, decide
from api.pages.security import HEADERS
from ledger.principals import Person
from schemas.decisions import Approval
from tests.api.markup import forbidden
from tests.api.parked import PASSWORD, TENANT, UI, Office, confirm, lose_answer, office

BASE = "http://counterseal.test"
MISSING = f"/approvals/apr_{'0' * 32}"
PAGES = [
    "/",
    "/history",
    "/stats",
    "/operations",
    "/signin",
    "/?find=nothing",
    MISSING,
    "/approvals/%00",
    "/?cursor=x",
    f"/calls/act_{'0' * 32}",
]


def browser(desk: Office, **options: Any) -> httpx.AsyncClient:
    """A browser that has not signed in; it follows no redirect."""
    return httpx.AsyncClient(transport=httpx.ASGITransport(desk.app), base_url=BASE, **options)


async def sign_in(desk: Office, username: str = "ana", **options: Any) -> httpx.AsyncClient:
    client = browser(desk, **options)
    token = hidden((await client.get("/signin")).text, "csrf")
    form = {"csrf": token, "username": username, "password": PASSWORD, "next": "/"}
    response = await client.post("/signin", data=form)
    assert response.status_code == 303
    return client


def hidden(html: str, name: str) -> str:
    found = re.search(rf'name="{name}" value="([^"]*)"', html)
    assert found is not None
    return unescape(found[1])


async def form_of(client: httpx.AsyncClient, approval: Approval) -> dict[str, str]:
    """What the page of an approval would send, without a decision."""
    html = (await client.get(f"/approvals/{approval.approval_id}")).text
    return {"csrf": hidden(html, "csrf"), "action_digest": hidden(html, "action_digest")}


async def post_decision(
    client: httpx.AsyncClient, approval: Approval, form: dict[str, str], **options: Any
) -> httpx.Response:
    return await client.post(f"/approvals/{approval.approval_id}/decision", data=form, **options)


async def event_types(desk: Office, approval: Approval) -> list[str]:
    return [event.type for _, event in await desk.ledger.calls.events(approval.request_id)]


async def stays_open(desk: Office, approval: Approval) -> bool:
    now = await desk.ledger.approvals.get(TENANT, approval.approval_id)
    return now is not None and now.status == "open" and desk.temporal.signals == []


# Signing in


@pytest.mark.parametrize("path", ["/", "/history?tool=issue_refund", "/stats", "/operations", MISSING])
async def test_whoever_is_not_signed_in_is_asked_to_and_comes_back(desk: Office, path: str) -> None:
    response = await browser(desk).get(path)
    assert response.status_code == 303
    target = urlsplit(response.headers["location"])
    assert target.path == "/signin"
    assert parse_qs(target.query) == {"next": [path]}


async def test_the_session_cookie_is_out_of_reach(desk: Office) -> None:
    client = browser(desk)
    token = hidden((await client.get("/signin")).text, "csrf")
    response = await client.post("/signin", data={"csrf": token, "username": "Ana", "password": PASSWORD})
    cookie = next(each for each in response.headers.get_list("set-cookie") if each.startswith("counterseal_session="))
    attributes = {part.strip().lower() for part in cookie.split(";")[1:]}
    assert {"httponly", "samesite=lax", "path=/"} <= attributes
    assert "secure" not in attributes


async def test_the_session_cookie_is_secure_where_the_site_is(database: str) -> None:
    async with office(database, public_url="https://counterseal.test") as desk:
        response = await browser(desk).get("/signin")
        assert all("secure" in cookie.lower() for cookie in response.headers.get_list("set-cookie"))


@pytest.mark.parametrize(
    ("username", "password"), [("ana", "wrong"), ("nobody", PASSWORD), ("", ""), ("ana", "x" * 2000)]
)
async def test_a_wrong_name_and_a_wrong_password_read_the_same(desk: Office, username: str, password: str) -> None:
    client = browser(desk)
    token = hidden((await client.get("/signin")).text, "csrf")
    response = await client.post("/signin", data={"csrf": token, "username": username, "password": password})
    assert response.status_code == 401
    assert "The username or the password is not right." in response.text
    assert "counterseal_session" not in response.headers.get("set-cookie", "")
    assert "wrong" not in response.text


async def test_a_disabled_account_is_out_at_once(desk: Office) -> None:
    client = await sign_in(desk)
    await desk.ledger.principals.disable_user("ana")
    assert (await client.get("/")).status_code == 303


@pytest.mark.parametrize(
    "target",
    [
        "https://evil.example/",
        "//evil.example",
        "/\\evil.example",
        "javascript:alert(1)",
        "evil",
        "/\r\nX: y",
        "/\t/evil",
    ],
)
async def test_nobody_is_sent_elsewhere_after_signing_in(desk: Office, target: str) -> None:
    client = browser(desk)
    token = hidden((await client.get("/signin", params={"next": target})).text, "csrf")
    form = {"csrf": token, "username": "ana", "password": PASSWORD, "next": target}
    assert (await client.post("/signin", data=form)).headers["location"] == "/"
    assert (await client.get("/signin", params={"next": target})).headers["location"] == "/"


async def test_signing_in_needs_our_own_form(desk: Office) -> None:
    client = browser(desk)
    form = {"username": "ana", "password": PASSWORD}
    assert (await client.post("/signin", data=form)).status_code == 403
    await client.get("/signin")
    assert (await client.post("/signin", data={**form, "csrf": "other"})).status_code == 403


async def test_guessing_is_slowed_down_and_others_are_not(desk: Office) -> None:
    client = browser(desk)
    token = hidden((await client.get("/signin")).text, "csrf")
    form = {"csrf": token, "username": "ana", "password": "wrong"}
    statuses = [(await client.post("/signin", data=form)).status_code for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    blocked = await client.post("/signin", data={**form, "password": PASSWORD})
    assert blocked.status_code == 429
    assert int(blocked.headers["retry-after"]) > 0
    assert (await client.post("/signin", data={**form, "username": "ben", "password": PASSWORD})).status_code == 303


async def test_signing_out_ends_the_session(desk: Office) -> None:
    client = await sign_in(desk)
    session = client.cookies["counterseal_session"]
    token = hidden((await client.get("/")).text, "csrf")
    assert (await client.post("/signout", data={"csrf": "other"})).status_code == 403
    assert (await client.post("/signout", data={"csrf": token})).status_code == 303
    assert "counterseal_session" not in client.cookies
    assert (await browser(desk, cookies={"counterseal_session": session}).get("/")).status_code == 303


# What every response carries


@pytest.mark.parametrize("signed_in", [True, False])
async def test_every_page_carries_the_security_headers(desk: Office, signed_in: bool) -> None:
    client = await sign_in(desk) if signed_in else browser(desk)
    for path in [*PAGES, "/nothing-here", "/static/nothing.css"]:
        response = await client.get(path)
        assert {name: response.headers[name] for name in HEADERS} == HEADERS, path
        if not path.startswith("/static"):
            assert response.headers["cache-control"] == "no-store", path
    refused = await client.post("/signin", content=b"{}", headers={"content-type": "application/json"})
    assert {name: refused.headers[name] for name in HEADERS} == HEADERS


async def test_pages_need_nothing_that_their_policy_forbids(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    for path in ("/", f"/approvals/{approval.approval_id}", "/history", "/stats"):
        html = (await client.get(path)).text
        assert not forbidden(html), path
        assert not re.search(r"https?://(?!127\.0\.0\.1:8233/)", html), path
        for asset in re.findall(r'(?:href|src)="(/static/[^"]+)"', html):
            assert (await client.get(asset)).status_code == 200


async def test_scripts_are_files_of_ours_that_browsers_run_as_such(desk: Office) -> None:
    scripts = re.findall(r'<script src="([^"]+)"', (await browser(desk).get("/signin")).text)
    assert scripts
    for script in scripts:
        response = await browser(desk).get(script)
        assert response.headers["content-type"].startswith("text/javascript")
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_a_time_says_utc_and_is_marked_for_the_readers_zone(desk: Office) -> None:
    approval = await desk.park()
    html = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    said = format_datetime(approval.expires_at, "d MMM y, HH:mm 'UTC'", locale="en_US")
    instant = approval.expires_at.isoformat(timespec="seconds")
    assert f'<time datetime="{instant}" title="{said}" data-absolute>{said}</time>' in html
    assert f'<time datetime="{instant}" title="{said}">in 22 h 59 min</time>' in html


async def test_an_unreachable_ledger_is_said_in_words(desk: Office) -> None:
    client = await sign_in(desk)
    await desk.ledger.database.close()
    response = await client.get("/")
    assert response.status_code == 503
    assert "The ledger cannot be reached" in response.text


# One approval


async def test_the_page_shows_the_action_the_facts_and_the_consequences(desk: Office) -> None:
    approval = await desk.park()
    html = unescape((await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text)
    for text in (
        approval.title,
        "312.40 USD is sent back to the customer, once.",
        "This cannot be undone.",
        "the agent is told not to ask for it again",
        approval.because,
        "rule over_threshold",
        "Order system",
        "Payment gateway",
        "409.00 USD",
        "<code>amount_cents: 31240</code>",
        "not delivered",
        approval.action_digest,
        "The parcel never arrived",
    ):
        assert text in html, text
    places = [
        html.index(text) for text in ("If you approve", "What the systems say", "Exactly what", "What the agent wrote")
    ]
    assert places == sorted(places)
    assert html.index("Your decision") > places[-1]


async def test_the_key_of_the_call_is_never_shown(desk: Office) -> None:
    key = "0f" * 16
    approval = await desk.park(arguments={"order_id": "ord_8f2b91a04c7d", "idempotency_key": key})
    assert key not in (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text


async def test_another_tenants_approval_is_as_unknown_as_none(desk: Office) -> None:
    foreign = await desk.park(tenant="other")
    client = await sign_in(desk)
    there, nowhere = await client.get(f"/approvals/{foreign.approval_id}"), await client.get(MISSING)
    assert (there.status_code, there.text) == (nowhere.status_code, nowhere.text)
    assert there.status_code == 404


HOSTILE = "<img src=x onerror=alert(1)>\"'{{7*7}}</blockquote>&lt;b&gt;\u202eevil\u202c\u200b\x1b[2J\u2066"


async def test_hostile_text_is_inert_in_every_field(desk: Office) -> None:
    texts = ("title", "because", "rule", "policy_version", "tool_version", "agent_id", "actor_id", "customer_id")
    facts: Any = {HOSTILE: HOSTILE, "order": {"status": HOSTILE, "placed_at": HOSTILE, "currency": HOSTILE}}
    approval = await desk.park(
        **dict.fromkeys(texts, HOSTILE),
        rules=(HOSTILE, "other"),
        arguments={HOSTILE: HOSTILE, "address": {"line1": HOSTILE, "list": [HOSTILE, {HOSTILE: HOSTILE}]}},
        facts=facts,
        untrusted={"note": HOSTILE, HOSTILE: HOSTILE},
    )
    client = await sign_in(desk)
    pages = ["/", f"/approvals/{approval.approval_id}"]
    htmls = [(await client.get(path)).text for path in pages]
    form = await form_of(client, approval)
    await post_decision(client, approval, {**form, "decision": "deny", "reason": HOSTILE.replace("\x1b", "")})
    htmls += [(await client.get(path)).text for path in [*pages, "/history", "/stats"]]
    for html in htmls:
        assert "<img src=x" not in html
        assert "</blockquote>&lt;b" not in html
        found = re.search("[\u202e\u202c\u200b\x1b\u2066]", html)
        assert found is None, html[found.start() - 200 : found.end() + 20]
        assert "7*7" in html or "evil" not in html
        assert "‹U+202E›" in html or "evil" not in html


async def test_the_agents_words_are_capped(desk: Office) -> None:
    approval = await desk.park(untrusted={"note": "w" * 2500})
    html = (await (await sign_in(desk)).get(f"/approvals/{approval.approval_id}")).text
    assert "w" * 2000 in html
    assert "w" * 2001 not in html
    assert "500 more characters are not shown" in html


# Looking changes nothing


async def test_looking_changes_nothing_but_the_record_of_it(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    before = await event_types(desk, approval)
    path = f"/approvals/{approval.approval_id}"
    for page in [*PAGES, path, path + "/decision"]:
        assert (await client.head(page)).content == b""
    await browser(desk).get(path)
    assert await event_types(desk, approval) == before
    decision = {"decision": "approve", "action_digest": approval.action_digest}
    assert (await client.get(path + "/decision", params=decision)).status_code == 405
    for _ in range(2):
        await client.get(path, params=decision)
    assert await event_types(desk, approval) == [*before, "approval.viewed"]
    assert await stays_open(desk, approval)


# Deciding


async def test_the_page_says_that_it_takes_two_and_who_has_approved(desk: Office) -> None:
    approval = await desk.park(people=2)
    ana, ben = await sign_in(desk), await sign_in(desk, "ben")
    path = f"/approvals/{approval.approval_id}"
    assert "It takes two people." in (await ana.get(path)).text
    form = await form_of(ana, approval)
    assert (await ana.post(f"{path}/decision", data=form | {"decision": "approve"})).status_code == 303
    hers, his = (await ana.get(path)).text, (await ben.get(path)).text
    assert "You have done your part." in hers
    assert 'value="approve"' not in hers
    assert 'value="deny"' not in hers
    assert "ana approved it" in his
    assert 'value="approve"' in his
    assert desk.temporal.signals == []
    assert (await ana.post(f"{path}/decision", data=form | {"decision": "approve"})).status_code == 303
    assert desk.temporal.signals == []
    form = await form_of(ben, approval)
    assert (await ben.post(f"{path}/decision", data=form | {"decision": "approve"})).status_code == 303
    assert desk.temporal.verdicts() == ["approve"]
    assert (await desk.ledger.calls.read(approval.request_id)).status == "in_progress"


async def test_approving_records_and_delivers_one_signed_decision(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = await form_of(client, approval)
    desk.temporal.on_signal = lambda: confirm(desk.ledger, approval.request_id)
    response = await post_decision(client, approval, {**form, "decision": "approve"})
    assert response.status_code == 303
    assert response.headers["location"] == f"/approvals/{approval.approval_id}"
    ((_, name, signed),) = desk.temporal.signals
    assert (name, signed.approval_id) == ("decide", approval.approval_id)
    assert "approval.granted" in await event_types(desk, approval)
    html = (await client.get(response.headers["location"])).text
    assert "Approved and done" in html
    assert "Done: refunded 312.40 USD of order ord_8f2b91a04c7d." in html
    assert 'http-equiv="refresh"' not in html


async def test_who_decides_is_who_is_signed_in_whatever_the_form_says(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    claims = {"approver": "ben", "username": "ben", "tenant": "other", "roles": "leads", "on_behalf_of": "ben"}
    form = {**await form_of(client, approval), **claims, "decision": "approve"}
    assert (await post_decision(client, approval, form)).status_code == 303
    decided = await desk.ledger.approvals.get(TENANT, approval.approval_id)
    assert decided is not None
    assert [(each.approver, each.tenant) for each in decided.decisions] == [("ana", TENANT)]


async def test_denying_keeps_the_reason(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "deny", "reason": "It was delivered.\r\nSee tracking."}
    assert (await post_decision(client, approval, form)).status_code == 303
    closed = await desk.ledger.approvals.get(TENANT, approval.approval_id)
    assert closed is not None
    assert (closed.status, closed.decisions[0].reason) == ("denied", "It was delivered.\nSee tracking.")
    assert "See tracking." in (await client.get(f"/approvals/{approval.approval_id}")).text
    history = (await client.get("/history")).text
    assert "See tracking." in history
    assert "by ana" in history


@pytest.mark.parametrize("reason", ["", "  \r\n ", "x" * 2001])
async def test_a_reason_is_needed_to_deny_and_bounded(desk: Office, reason: str) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "deny", "reason": reason}
    response = await post_decision(client, approval, form)
    assert response.status_code == 422
    assert 'role="alert"' in response.text
    # Nothing that was typed is lost.
    assert reason.strip() in response.text
    assert await stays_open(desk, approval)


@pytest.mark.parametrize("csrf", [None, "", "wrong", "é"])
async def test_a_form_without_the_sessions_token_is_refused(desk: Office, csrf: str | None) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "approve"}
    del form["csrf"]
    response = await post_decision(client, approval, form if csrf is None else {**form, "csrf": csrf})
    assert response.status_code == 403
    assert await stays_open(desk, approval)


async def test_another_sessions_token_is_refused(desk: Office) -> None:
    approval = await desk.park()
    ana, ben = await sign_in(desk), await sign_in(desk, "ben")
    form = {**await form_of(ben, approval), "decision": "approve"}
    assert (await post_decision(ana, approval, form)).status_code == 403
    assert await stays_open(desk, approval)


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "same-origin", "origin": "http://counterseal.test.evil.example"},
    ],
)
async def test_a_form_from_elsewhere_is_refused_even_with_the_token(desk: Office, headers: dict[str, str]) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "approve"}
    assert (await post_decision(client, approval, form, headers=headers)).status_code == 403
    assert await stays_open(desk, approval)
    desk.temporal.on_signal = lambda: confirm(desk.ledger, approval.request_id)
    own = {"sec-fetch-site": "same-origin", "origin": BASE}
    assert (await post_decision(client, approval, form, headers=own)).status_code == 303


async def test_only_a_plain_form_is_read(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "approve"}
    path = f"/approvals/{approval.approval_id}/decision"
    encoded = "&".join(f"{name}={quote(value)}" for name, value in form.items())
    kind = {"content-type": "application/x-www-form-urlencoded"}
    assert (await client.post(path, json=form)).status_code == 415
    assert (await client.post(path, files={"a": b"b"}, data=form)).status_code == 415
    assert (await client.post(path, content=encoded, headers={"content-type": "text/plain"})).status_code == 415
    for bad in (encoded + "&decision=deny", encoded + "&reason=%00", encoded + "&reason=%ff", "&a=" * 40, b"\xff=1"):
        assert (await client.post(path, content=bad, headers=kind)).status_code == 400, bad
    assert (await client.post(path, content=encoded + "&reason=" + "x" * 40_000, headers=kind)).status_code == 413
    assert (await client.post(path, content=encoded.replace("approve", "maybe"), headers=kind)).status_code == 422
    assert await stays_open(desk, approval)


async def test_a_decision_on_another_action_is_stale(desk: Office) -> None:
    approval, other = await desk.park(), await desk.park()
    client = await sign_in(desk)
    form = {**await form_of(client, other), "decision": "approve"}
    response = await post_decision(client, approval, form)
    assert response.status_code == 409
    assert "What you decided on is not what waits here now" in response.text
    assert await stays_open(desk, approval)


async def test_the_first_decision_wins(desk: Office) -> None:
    approval = await desk.park()
    ana, ben = await sign_in(desk), await sign_in(desk, "ben")
    form = await form_of(ana, approval)
    late = {**await form_of(ben, approval), "decision": "approve"}
    assert (await post_decision(ana, approval, {**form, "decision": "deny", "reason": "No."})).status_code == 303
    response = await post_decision(ben, approval, late)
    assert response.status_code == 409
    assert "This was already decided" in response.text
    assert "Denied by <strong>ana</strong>" in response.text
    assert (await post_decision(ana, approval, {**form, "decision": "approve"})).status_code == 409
    assert desk.temporal.verdicts() == ["deny"]


async def test_after_the_deadline_nothing_is_decided(desk: Office) -> None:
    approval = await desk.park(expires_in=timedelta(seconds=-1))
    client = await sign_in(desk)
    html = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "It can no longer be decided" in html
    assert 'value="approve"' not in html
    form = {"csrf": hidden(html, "csrf"), "action_digest": approval.action_digest, "decision": "approve"}
    assert (await post_decision(client, approval, form)).status_code == 409
    assert desk.temporal.signals == []


@pytest.mark.parametrize("changes", [{"agent_id": "Ana"}, {"actor_id": "ana"}, {"approvers": "legal"}])
async def test_who_may_not_decide_gets_no_button_and_a_403(desk: Office, changes: dict[str, str]) -> None:
    approval = await desk.park(**changes)
    client = await sign_in(desk)
    html = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert 'value="approve"' not in html
    assert "You cannot decide this one." in html
    form = {"csrf": hidden(html, "csrf"), "action_digest": approval.action_digest, "decision": "approve"}
    assert (await post_decision(client, approval, form)).status_code == 403
    assert await stays_open(desk, approval)


async def test_a_decision_without_a_session_goes_to_sign_in_and_back(desk: Office) -> None:
    approval = await desk.park()
    response = await post_decision(browser(desk), approval, {"decision": "approve"})
    assert response.status_code == 303
    assert parse_qs(urlsplit(response.headers["location"]).query) == {"next": [f"/approvals/{approval.approval_id}"]}
    assert await stays_open(desk, approval)


async def test_the_page_follows_a_lost_answer(desk: Office) -> None:
    approval = await desk.park()
    waiting = await desk.park(title="Refund that waits next")
    await desk.decide(approval, "approve")
    await lose_answer(desk.ledger, approval.request_id)
    client = await sign_in(desk)
    path = f"/approvals/{approval.approval_id}"
    html = (await client.get(path)).text
    assert '<meta http-equiv="refresh" content="2">' in html
    assert "outcome not known yet" in html
    assert f'href="/approvals/{waiting.approval_id}">Next: Refund that waits next' in html
    workflow = (await desk.ledger.calls.read(approval.request_id)).workflow_id
    assert f"{UI}/namespaces/default/workflows/{quote(workflow, safe='')}" in html
    await confirm(desk.ledger, approval.request_id)
    html = (await client.get(path)).text
    assert 'http-equiv="refresh"' not in html
    assert "The answer was lost" in html


# History, statistics, operations


async def test_history_has_what_is_closed_newest_first(desk: Office) -> None:
    first, second, _ = [await desk.park() for _ in range(3)]
    await desk.decide(first, "approve")
    await desk.decide(second, "deny", reason="No.")
    html = (await (await sign_in(desk)).get("/history")).text
    ids = re.findall(r'<h2><a href="/approvals/(\w+)"', html)
    assert ids == [second.approval_id, first.approval_id]


async def test_operations_are_for_operators(desk: Office) -> None:
    approval = await desk.park()
    await desk.decide(approval, "approve")
    await lose_answer(desk.ledger, approval.request_id)
    ana, olga = await sign_in(desk), await sign_in(desk, "olga")
    refused = await ana.get("/operations")
    assert refused.status_code == 403
    assert approval.request_id[:16] not in refused.text
    assert "/operations" not in (await ana.get("/")).text
    html = (await olga.get("/operations")).text
    assert html.count(f'title="{approval.request_id}"') == 2
    assert html.count(f'title="{approval.request_id}"') > (await olga.get("/operations?status=denied")).text.count(
        'title="act'
    )


async def test_signing_in_gives_the_person_that_signed_in(desk: Office) -> None:
    signed_in = await desk.ledger.principals.sign_in("ANA", PASSWORD)
    assert signed_in is not None
    csrf = signed_in[1].csrf
    assert signed_in[1] == Person(TENANT, "ana", "Ana Example", frozenset({"finance"}), csrf, has_password=True)


@pytest.mark.parametrize(("verdict", "people"), [("approve", 1), ("deny", 1), ("approve", 2)])
async def test_a_form_sent_twice_at_once_is_one_decision_and_no_error(desk: Office, verdict: str, people: int) -> None:
    approval = await desk.park(people=people)
    client = await sign_in(desk)
    sent = {**await form_of(client, approval), "decision": verdict, "reason": "It was delivered."}
    path = f"/approvals/{approval.approval_id}"
    answers = await asyncio.gather(*(client.post(f"{path}/decision", data=sent) for _ in range(2)))
    assert [each.headers.get("location") for each in answers] == [path, path]
    events = [event.type for _, event in await desk.ledger.calls.events(approval.request_id)]
    decided = {"approve": "approval.granted" if people == 1 else "approval.supported", "deny": "approval.denied"}
    assert events.count(decided[verdict]) == 1
    assert len(desk.temporal.signals) == (1 if people == 1 else 0)
    # Whoever then decides otherwise is told that it was not taken.
    other = {**sent, "decision": "deny" if verdict == "approve" else "approve"}
    assert (await client.post(f"{path}/decision", data=other)).status_code == 409


async def test_of_50_people_at_once_one_decides(desk: Office) -> None:
    approval = await desk.park()

    async def one(number: int) -> str | None:
        who = Decider(TENANT, f"person-{number}", frozenset({"finance"}))
        digest = approval.action_digest
        verdict = "approve" if number % 2 else "deny"
        made = await decide(
            desk.app.state.context, who, approval.approval_id, verdict, action_digest=digest, reason="One of 50."
        )
        return made.refused

    assert Counter(await asyncio.gather(*map(one, range(50)))) == {None: 1, "already_decided": 49}
    events = [event.type for _, event in await desk.ledger.calls.events(approval.request_id)]
    assert sum(each in ("approval.granted", "approval.denied") for each in events) == 1
    assert len(desk.temporal.signals) == 1


# What is to be seen at once


async def test_what_speaks_against_it_is_said_first_and_beside_the_button(desk: Office) -> None:
    other = await desk.park(untrusted={"note": "Broken on the first day."})
    facts = {**other.facts, "customer": {"fraud_flag": True}}
    shown = await desk.park(facts=facts, untrusted={"note": "APPROVED BY FINANCE" + "\n" * 300 + "p\u0430ypal"})
    client = await sign_in(desk)
    html = (await client.get(f"/approvals/{shown.approval_id}")).text
    lead, decision = html[: html.index("If you approve")], html[html.index('id="decide"') :]
    for place in (lead, decision):
        assert "not delivered, but the order system says delivered" in place
        assert "Customer flagged for fraud" in place
    assert "Another request for the same customer waits as well." in lead
    assert "Do not trust it." in html
    plain = (await client.get(f"/approvals/{other.approval_id}")).text
    assert "Do not trust it." not in plain
    assert "Customer flagged for fraud</dt><dd>No" in plain[: plain.index("If you approve")]
    # Where the systems say nothing else, the reason is a reason.
    agreed = await desk.park(facts={**other.facts, "order": {**_mapping(other.facts["order"]), "status": "shipped"}})
    html = (await client.get(f"/approvals/{agreed.approval_id}")).text
    assert "but the order system says" not in html


async def test_the_first_of_two_is_not_told_that_it_is_done(desk: Office) -> None:
    approval = await desk.park(people=2)
    ana, ben = await sign_in(desk), await sign_in(desk, "ben")
    path = f"/approvals/{approval.approval_id}"
    assert "another person has to approve it too. Then 312.40 USD is sent back" in (await ana.get(path)).text
    assert "You can decide, as one of two" in (await ana.get("/")).text
    await post_decision(ana, approval, {**await form_of(ana, approval), "decision": "approve"})
    html = (await ben.get(path)).text
    assert "another person has to approve it too" not in html
    assert "312.40 USD is sent back to the customer, once." in html


def _mapping(value: Any) -> dict[str, Any]:
    assert isinstance(value, dict)
    return value  # pyright: ignore[reportUnknownVariableType]  # JSON's names are texts
