"""Approving what asks for a proof: with a password, or a new sign-in at the provider; never with a session alone."""

import time
from dataclasses import replace
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx
import pytest

from api.attempts import SignInAttempts
from api.deciding import Decider, decide
from api.sessions import COOKIE
from schemas.decisions import Approval
from tests.api.fake_provider import ANA, ISSUER, FakeProvider
from tests.api.parked import PASSWORD, TENANT, Office
from tests.api.test_deciders import by_signature, decider
from tests.api.test_openid import begin, come_back, use
from tests.api.test_pages import browser, event_types, form_of, post_decision, sign_in, stays_open

ASKED = {"proof": "reauthenticated"}


@pytest.fixture
def fake(desk: Office) -> FakeProvider:
    made = FakeProvider()
    use(desk, made)
    return made


async def approve(client: httpx.AsyncClient, approval: Approval, **fields: str) -> httpx.Response:
    return await post_decision(client, approval, {**await form_of(client, approval), "decision": "approve", **fields})


async def proven_by(desk: Office, approval: Approval) -> list[tuple[str, str | None]]:
    found = await desk.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    return [(each.approver, each.proof.kind if each.proof else None) for each in found.decisions]


# The password


async def test_a_session_alone_does_not_approve_it(desk: Office) -> None:
    approval = await desk.park(**ASKED)
    client = await sign_in(desk)
    page = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "Approving this takes a proof that it is you." in page
    refused = await approve(client, approval)
    assert refused.status_code == 403
    assert "Not decided." in refused.text
    assert await stays_open(desk, approval)
    # Not even where the page is not asked.
    done = await decide(
        desk.app.state.context,
        await decider(desk, "ana"),
        approval.approval_id,
        "approve",
        action_digest=approval.action_digest,
        reason="",
    )
    assert done.refused == "not_proven"
    assert (await by_signature(desk, approval, "ana")).value == "not_proven"
    assert await stays_open(desk, approval)


async def test_the_password_once_more_approves_it(desk: Office) -> None:
    approval = await desk.park(**ASKED)
    client = await sign_in(desk)
    assert (await approve(client, approval, password=PASSWORD)).status_code == 303
    assert await proven_by(desk, approval) == [("ana", "password")]
    page = (await client.get(f"/approvals/{approval.approval_id}")).text
    assert "who entered their password again" in page
    assert PASSWORD not in page


async def test_what_asks_for_nothing_is_approved_as_ever(desk: Office) -> None:
    approval = await desk.park()
    client = await sign_in(desk)
    assert 'name="password"' not in (await client.get(f"/approvals/{approval.approval_id}")).text
    assert (await approve(client, approval)).status_code == 303
    assert await proven_by(desk, approval) == [("ana", None)]


async def test_denying_it_takes_no_proof(desk: Office) -> None:
    approval = await desk.park(**ASKED)
    client = await sign_in(desk)
    form = {**await form_of(client, approval), "decision": "deny", "reason": "an example"}
    assert (await post_decision(client, approval, form)).status_code == 303


async def test_a_wrong_password_is_refused_recorded_and_counted_as_at_sign_in(desk: Office) -> None:
    desk.app.state.context = replace(desk.app.state.context, sign_in_attempts=SignInAttempts(clock=lambda: 0.0))
    approval = await desk.park(**ASKED)
    client = await sign_in(desk)
    for wrong in ("wrong", PASSWORD.upper(), "x" * 2000, " ", "wrong"):
        refused = await approve(client, approval, password=wrong)
        assert (refused.status_code, "That is not your password." in refused.text) == (403, True)
        assert 'aria-invalid="true"' in refused.text
    assert (await event_types(desk, approval)).count("decision.rejected") == 5
    too_many = await approve(client, approval, password=PASSWORD)
    assert too_many.status_code == 429
    assert int(too_many.headers["retry-after"]) > 0
    assert await stays_open(desk, approval)
    # One count: guessing here is guessing there.
    again = browser(desk)
    form = {"csrf": (await again.get("/signin")).text.split('name="csrf" value="')[1].split('"')[0]}
    answer = await again.post("/signin", data={**form, "username": "ana", "password": PASSWORD, "next": "/"})
    assert answer.status_code == 429


async def test_somebody_elses_password_proves_nothing(desk: Office) -> None:
    await desk.ledger.principals.add_user(TENANT, "cleo", "Cleo Example", "another long password", ["finance"])
    approval = await desk.park(**ASKED)
    assert (await approve(await sign_in(desk), approval, password="another long password")).status_code == 403
    assert await stays_open(desk, approval)


async def test_each_of_two_people_proves_it(desk: Office) -> None:
    approval = await desk.park(people=2, **ASKED)
    ana, ben = await sign_in(desk), await sign_in(desk, "ben")
    assert (await approve(ana, approval, password=PASSWORD)).status_code == 303
    assert (await approve(ben, approval)).status_code == 403
    assert (await approve(ben, approval, password=PASSWORD)).status_code == 303
    assert await proven_by(desk, approval) == [("ana", "password"), ("ben", "password")]


async def test_whoever_may_not_decide_it_is_not_asked_for_a_password(desk: Office) -> None:
    approval = await desk.park(actor_id="ana", **ASKED)
    client, other = await sign_in(desk), await desk.park()
    form = {**await form_of(client, other), "action_digest": approval.action_digest, "decision": "approve"}
    refused = await post_decision(client, approval, {**form, "password": "wrong"})
    assert "This is not yours to decide." in refused.text
    assert "decision.rejected" not in await event_types(desk, approval)


# A passkey is more than either


async def test_where_a_passkey_is_asked_for_a_password_is_not_enough(desk: Office) -> None:
    approval = await desk.park(proof="passkey")
    assert (await approve(await sign_in(desk), approval, password=PASSWORD)).status_code == 403
    assert await stays_open(desk, approval)


# The provider


async def signed_in(desk: Office, fake: FakeProvider) -> httpx.AsyncClient:
    """Ana, by the provider: she has no password here."""
    client = browser(desk)
    await come_back(client, fake.authorize(await begin(client)))
    return client


async def away(client: httpx.AsyncClient, path: str) -> str:
    """Where the browser is sent to sign in once more."""
    response = await client.get(f"/signin/oidc?{urlencode({'next': path, 'again': 'true'})}")
    assert response.status_code == 302
    return response.headers["location"]


def page_of(approval: Approval) -> str:
    return f"/approvals/{approval.approval_id}"


async def test_a_new_sign_in_at_the_provider_approves_it(desk: Office, fake: FakeProvider) -> None:
    approval, other = await desk.park(**ASKED), await desk.park(**ASKED)
    client = await signed_in(desk, fake)
    page = (await client.get(page_of(approval))).text
    assert 'value="approve"' not in page
    link = page.split('href="/signin/oidc?')[1].split('"')[0].replace("&amp;", "&")
    before = client.cookies[COOKIE]
    location = (await client.get(f"/signin/oidc?{link}")).headers["location"]
    asked = parse_qs(urlsplit(location).query)
    assert (asked["prompt"], asked["max_age"]) == (["login"], ["0"])
    fake.claims = {"auth_time": int(time.time())}
    back = await come_back(client, fake.authorize(location))
    assert (back.status_code, back.headers["location"]) == (303, page_of(approval))
    # A session that was stolen before is none any more.
    assert client.cookies[COOKIE] != before
    assert await desk.ledger.principals.session(before) is None
    # It proves it for the page that they came from, and for no other.
    assert 'value="approve"' not in (await client.get(page_of(other))).text
    assert "You signed in again" in (await client.get(page_of(approval))).text
    assert (await approve(client, approval)).status_code == 303
    assert await proven_by(desk, approval) == [("ana.example", "sign_in")]


async def test_it_counts_for_five_minutes(desk: Office, fake: FakeProvider) -> None:
    approval = await desk.park(**ASKED)
    client = await signed_in(desk, fake)
    location = await away(client, page_of(approval))
    fake.claims = {"auth_time": int(time.time())}
    await come_back(client, fake.authorize(location))
    await desk.ledger.system.execute("UPDATE sessions SET proven_at = proven_at - interval '301 seconds'")
    assert 'value="approve"' not in (await client.get(page_of(approval))).text
    assert (await approve(client, approval)).status_code == 403
    assert await stays_open(desk, approval)


@pytest.mark.parametrize("auth_time", [None, 0, -301, 120, "now", True])
async def test_a_provider_that_did_not_ask_again_proves_nothing(
    desk: Office, fake: FakeProvider, auth_time: int | str | None
) -> None:
    client = await signed_in(desk, fake)
    before = client.cookies[COOKIE]
    location = await away(client, "/history")
    offset = isinstance(auth_time, int) and not isinstance(auth_time, bool) and auth_time != 0
    fake.claims = {"auth_time": int(time.time()) + int(auth_time or 0) if offset else auth_time}
    refused = await come_back(client, fake.authorize(location))
    assert refused.status_code == 403
    assert "so nothing is proven" in refused.text
    assert client.cookies[COOKIE] == before
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM sessions WHERE proven_at IS NOT NULL") == 0


async def test_somebody_else_at_the_provider_proves_nothing(desk: Office, fake: FakeProvider) -> None:
    client = await signed_in(desk, fake)
    location = await away(client, "/history")
    fake.person = {**ANA, "sub": "other", "preferred_username": "eve", "email": "eve@example.com"}
    fake.claims = {"auth_time": int(time.time())}
    refused = await come_back(client, fake.authorize(location))
    assert (refused.status_code, "somebody else signed in" in refused.text) == (403, True)
    assert await desk.ledger.principals.identities.account_of(ISSUER, "other") is None


async def test_an_ordinary_sign_in_proves_nothing_however_new(desk: Office, fake: FakeProvider) -> None:
    fake.claims = {"auth_time": int(time.time())}
    approval = await desk.park(**ASKED)
    client = await signed_in(desk, fake)
    assert (await approve(client, approval)).status_code == 403
    assert await stays_open(desk, approval)


async def test_a_provider_whose_clock_is_ahead_makes_no_proof_last_longer(desk: Office, fake: FakeProvider) -> None:
    client = await signed_in(desk, fake)
    location = await away(client, "/history")
    fake.claims = {"auth_time": int(time.time()) + 50}
    assert (await come_back(client, fake.authorize(location))).status_code == 303
    assert await desk.ledger.system.fetchval("SELECT proven_at <= now() FROM sessions WHERE proven_for = '/history'")


async def test_a_token_is_no_proof(desk: Office) -> None:
    approval = await desk.park(**ASKED)
    _, token = await desk.ledger.principals.issue("approver", TENANT, "ana")
    headers = {"Authorization": f"Bearer {token}"}
    path = f"/v1/approvals/{approval.approval_id}"
    shown = (await browser(desk).get(path, headers=headers)).json()
    assert shown["proof"] == "reauthenticated"
    body = {"decision": "approve", "action_digest": approval.action_digest}
    refused = await browser(desk).post(f"{path}/decision", headers=headers, json=body)
    assert (refused.status_code, "approve it on its page" in refused.json()["detail"]) == (403, True)
    assert await stays_open(desk, approval)
    denied = {**body, "decision": "deny", "reason": "an example"}
    assert (await browser(desk).post(f"{path}/decision", headers=headers, json=denied)).status_code == 200


async def test_an_unknown_decider_with_a_signature_alone_does_not_approve_it(desk: Office) -> None:
    approval = await desk.park(**ASKED)
    nobody = Decider(TENANT, "nobody", frozenset({"finance"}))
    done = await decide(
        desk.app.state.context,
        nobody,
        approval.approval_id,
        "approve",
        action_digest=approval.action_digest,
        reason="",
    )
    assert done.refused == "not_proven"
