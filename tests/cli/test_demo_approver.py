"""The demo's people decide through the real surfaces: the JSON API, and the form with sign-in and CSRF."""

from collections.abc import AsyncIterator

import httpx
import pytest

from runtime.demo.approver import ApprovalsApi, WebForm
from runtime.demo.client import ApiProblem
from schemas.decisions import Approval
from tests.api.parked import PASSWORD, TENANT, Office, office

BASE = "http://counterseal.test"


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made


@pytest.fixture
async def api(desk: Office) -> AsyncIterator[ApprovalsApi]:
    _, token = await desk.ledger.principals.issue("approver", TENANT, "ben")
    async with httpx.AsyncClient(transport=httpx.ASGITransport(desk.app), base_url=BASE) as http:
        yield ApprovalsApi(http, token)


async def state(desk: Office, approval: Approval) -> tuple[str, str, str]:
    """(status, who decided, the reason)."""
    found = await desk.ledger.approvals.get(TENANT, approval.approval_id)
    assert found is not None
    (decision,) = found.decisions
    return found.status, decision.approver, decision.reason


async def test_over_json_each_waiting_call_is_found_and_decided(desk: Office, api: ApprovalsApi) -> None:
    one, two = await desk.park(), await desk.park()
    waiting = await api.waiting()
    assert set(waiting) == {one.request_id, two.request_id}
    await api.decide(waiting[one.request_id], "approve", "")
    await api.decide(waiting[two.request_id], "deny", "Not ours.")
    assert await state(desk, one) == ("granted", "ben", "")
    assert await state(desk, two) == ("denied", "ben", "Not ours.")
    assert await api.waiting() == {}
    with pytest.raises(ApiProblem, match="HTTP 409 instead of 200"):
        await api.decide(waiting[one.request_id], "deny", "Too late.")


@pytest.mark.parametrize(("verdict", "reason", "status"), [("approve", "", "granted"), ("deny", "Not ours.", "denied")])
async def test_over_the_form_a_person_signs_in_decides_and_signs_out(
    desk: Office, verdict: str, reason: str, status: str
) -> None:
    approval = await desk.park()
    transport = httpx.ASGITransport(desk.app)
    async with WebForm.signed_in(BASE, "ana", PASSWORD, transport=transport) as form:
        await form.decide(approval.approval_id, "approve" if verdict == "approve" else "deny", reason)
    assert await state(desk, approval) == (status, "ana", reason)
    assert await desk.ledger.system.fetchval("SELECT count(*) FROM sessions") == 0
    assert await desk.ledger.system.fetchval("SELECT viewer FROM views") == "ana"


async def test_a_decision_the_form_does_not_take_is_a_problem(desk: Office) -> None:
    approval = await desk.park()
    transport = httpx.ASGITransport(desk.app)
    async with WebForm.signed_in(BASE, "ana", PASSWORD, transport=transport) as form:
        with pytest.raises(ApiProblem, match="HTTP 422 instead of 303"):
            await form.decide(approval.approval_id, "deny", "")
        await desk.decide(approval, "approve")
        with pytest.raises(ApiProblem, match="no form"):
            await form.decide(approval.approval_id, "approve", "")


async def test_a_wrong_password_is_a_problem_that_does_not_repeat_it(desk: Office) -> None:
    transport = httpx.ASGITransport(desk.app)
    with pytest.raises(ApiProblem, match="POST /signin: HTTP 401") as caught:
        async with WebForm.signed_in(BASE, "ana", "a wrong long password", transport=transport):
            pytest.fail("signed in")
    assert "wrong long" not in str(caught.value)
