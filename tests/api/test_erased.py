"""What a customer's erasure leaves of their calls, wherever somebody looks: no words of theirs, and never a failure."""

from collections.abc import AsyncIterator

import httpx
import pytest

from ledger.principals import Principal
from schemas.decisions import Approval
from tests.api.conftest import Api, Tenant
from tests.api.markup import forbidden
from tests.api.parked import TENANT, Office, office
from tests.api.test_pages import BASE, sign_in
from tests.service import refund_arguments

REASON = "Ada Example was told twice"


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made


@pytest.fixture
async def erased(desk: Office) -> Approval:
    """One that was denied, and whose customer was erased then."""
    approval = await desk.park()
    await desk.decide(approval, "deny", reason=REASON)
    assert await desk.ledger.erasures.erase(TENANT, approval.customer_id, by="olga", reason="asked for") == 1
    return approval


async def test_pages_show_that_it_was_erased_and_who_decided(desk: Office, erased: Approval) -> None:
    kept = await desk.park(title="Refund 1.00 USD")
    await desk.decide(kept, "deny", reason="too much")
    for name in ("ana", "olga"):
        person = await sign_in(desk, name)
        listed = (await person.get("/history")).text
        assert "Erased" in listed
        assert "The customer was erased" in listed
        assert kept.title in listed
        page = await person.get(f"/approvals/{erased.approval_id}")
        assert page.status_code == 200
        for said in ("Erased", "Denied by", "ben", "Call proposed; what it said was erased with its customer"):
            assert said in page.text
        assert forbidden(page.text) == []
        story = await person.get(f"/calls/{erased.request_id}")
        assert (story.status_code, f'href="/calls/{erased.request_id}"' in page.text) == (200, True)
        assert REASON not in story.text
        for words in (REASON, erased.title, erased.customer_id, *erased.untrusted.values()):
            assert words not in listed
            assert words not in page.text


async def test_no_page_or_form_fails_on_it(desk: Office, erased: Approval) -> None:
    olga = await sign_in(desk, "olga")
    own = f"/approvals/{erased.approval_id}"
    for path in ("/", "/history", "/stats", "/operations", f"/?find={erased.approval_id}", own):
        assert (await olga.get(path)).status_code in (200, 303), path
    assert "erased" in (await olga.get("/operations")).text
    for path in (f"/operations/diagnostics/{erased.request_id}", f"/operations/review/{erased.request_id}"):
        assert (await olga.get(path)).status_code in (200, 404, 410), path
    ana = await sign_in(desk, "ana")
    csrf = (await ana.get("/account")).text.split('name="csrf" value="')[1].split('"')[0]
    form = {"csrf": csrf, "decision": "approve", "action_digest": erased.action_digest, "reason": "yes"}
    for what in ("decision", "deadline", "claim", "release", "amend"):
        answer = await ana.post(f"{own}/{what}", data=form)
        assert answer.status_code < 500, what


async def test_the_approvers_api_says_so(desk: Office, erased: Approval) -> None:
    _, token = await desk.ledger.principals.issue("approver", TENANT, "ana")
    transport = httpx.ASGITransport(desk.app)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(transport=transport, base_url=BASE, headers=headers) as client:
        found = (await client.get(f"/v1/approvals/{erased.approval_id}")).json()
        assert (found["erased"], found["arguments"], found["facts"], found["untrusted"]) == (True, {}, {}, {})
        assert (found["status"], found["decisions"][0]["approver"]) == ("denied", "ben")
        assert REASON not in str(found)
        decision = {"decision": "approve", "action_digest": erased.action_digest, "reason": "yes"}
        answer = await client.post(f"/v1/approvals/{erased.approval_id}/decision", json=decision)
        assert answer.status_code in (409, 410)
        assert answer.headers["content-type"] == "application/problem+json"
        still = await desk.park()
        assert "erased" not in (await client.get(f"/v1/approvals/{still.approval_id}")).json()


@pytest.mark.asyncio(loop_scope="session")
async def test_agents_find_nothing_and_do_nothing_twice(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    arguments = refund_arguments(order, 4_999)
    token = await tenant.run(order["customer_id"])
    before = await api.call(token, arguments)
    assert before.status_code == 200
    ledger = api.service.core.ledger
    await ledger.erasures.erase(tenant.name, order["customer_id"], by="olga", reason="asked for")
    assert (await api.get(f"/v1/tool-calls/{before.json()['request_id']}", token)).status_code == 401
    later = await tenant.run(order["customer_id"])
    assert (await api.get(f"/v1/tool-calls/{before.json()['request_id']}", later)).status_code == 404
    again = await api.call(later, arguments)
    assert (again.status_code, again.json()["code"]) == (409, "IDEMPOTENCY_CONFLICT")
    assert len(await api.service.outside.effects(order)) == 1
    # With a key of its own it is a new call.
    fresh = await api.call(later, refund_arguments(order, 100))
    assert fresh.status_code in (200, 202)


async def test_a_request_of_an_erased_customers_run_is_turned_away_and_kept_without_them(
    desk: Office, erased: Approval
) -> None:
    run = await desk.ledger.principals.open_run(
        Principal("service", TENANT, "runtime"),
        agent_id="bot",
        actor_id="user_17",
        customer_id="cus_to_be_erased",
        tools=["issue_refund"],
        seconds=3600,
    )
    await desk.ledger.erasures.erase(TENANT, "cus_to_be_erased", by="olga", reason="asked for")
    transport = httpx.ASGITransport(desk.app)
    async with httpx.AsyncClient(transport=transport, base_url=BASE) as client:
        answer = await client.get("/v1/tools", headers={"Authorization": f"Bearer {run.token}"})
    assert answer.status_code == 401
