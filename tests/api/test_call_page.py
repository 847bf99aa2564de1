"""The story of a call on its page: who did what, with hashes and seals, for those who may see it."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from api.pages.links import is_trace_url, trace_link, workflow_link
from ledger.admission import Admitted
from schemas.calls import Binding, Call
from schemas.codes import Code
from schemas.decisions import PolicyDecision
from schemas.events import CallDecided, CallProposed, CallSettled
from schemas.ids import new_request_id, new_run_id, workflow_id
from schemas.replies import Explanation
from tests.api.parked import TENANT, UI, Office, confirm, lose_answer
from tests.api.test_pages import sign_in

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def path_of(request_id: str) -> str:
    return f"/calls/{request_id}"


async def free_call(desk: Office, tenant: str = TENANT) -> str:
    """A call that nobody was asked about."""
    binding = Binding(
        tenant=tenant, run_id=new_run_id(), agent_id="support-bot", actor_id="user_17", customer_id="cus_secret_one"
    )
    request_id = new_request_id()
    call = Call(
        request_id=request_id,
        binding=binding,
        tool="lookup_orders",
        tool_version="1.0.0",
        arguments={"order_id": "ord_private"},
        arguments_digest="0" * 64,
        key_hash="0" * 64,
        workflow_id=workflow_id(tenant, "lookup_orders", request_id),
        trace_id=TRACE,
    )
    decision = PolicyDecision(verdict="free", rule="otherwise", because="reads are free", policy_version="p@1")
    said = Explanation(values={"done": "1 order"})
    events = (
        CallProposed(call=call),
        CallDecided(decision=decision, facts={}, totals={}),
        CallSettled(status="executed", code=Code.OK, explanation=said),
    )
    admitted = Admitted(events)
    await desk.ledger.admissions.record(call, admitted, datetime.now(UTC))
    return request_id


async def test_the_story_names_who_when_and_the_hash(desk: Office) -> None:
    approval = await desk.park()
    ana = await sign_in(desk)
    await ana.get(f"/approvals/{approval.approval_id}")
    await desk.decide(approval, "approve")
    await lose_answer(desk.ledger, approval.request_id)
    await confirm(desk.ledger, approval.request_id)
    await desk.ledger.seals.seal()
    html = (await ana.get(path_of(approval.request_id))).text
    events = await desk.ledger.calls.events(approval.request_id)
    for row, event in events:
        assert f'title="{row.hash.hex()}"' in html
        assert f"<code>{event.type}</code>" in html
    for said in ("support-bot", "ana opened the request", "ben approved it", "payments system", "as re_example"):
        assert said in html
    assert f"rule {approval.rule}" in html
    assert approval.policy_version in html
    assert f"{len(events)} events, each hashed over the one before it" in html
    assert "not yet" not in html
    assert f"/approvals/{approval.approval_id}" in html
    assert f'href="{UI}/namespaces/default/workflows/' in html


async def test_what_is_not_sealed_yet_says_so(desk: Office) -> None:
    approval = await desk.park()
    html = (await (await sign_in(desk)).get(path_of(approval.request_id))).text
    assert html.count("not yet") == 3


async def test_a_record_that_was_changed_is_not_told(desk: Office) -> None:
    approval = await desk.park()
    await desk.ledger.system.execute("UPDATE calls SET n = n + 1 WHERE request_id = $1", approval.request_id)
    html = (await (await sign_in(desk)).get(path_of(approval.request_id))).text
    assert "The record of this call does not hold: the call ends at event 4, its events at 3." in html
    assert "What happened, and who did it" not in html


async def test_a_call_that_nobody_was_asked_about_is_for_operators(desk: Office) -> None:
    request_id = await free_call(desk)
    ana, olga = await sign_in(desk), await sign_in(desk, "olga")
    unknown = await ana.get(path_of(new_request_id()))
    hidden = await ana.get(path_of(request_id))
    assert hidden.status_code == unknown.status_code == 404
    assert hidden.text == unknown.text
    html = (await olga.get(path_of(request_id))).text
    assert "The call was closed: executed" in html
    # No more of it than the other pages show them.
    assert "cus_secret_one" not in html
    assert "ord_private" not in html


@pytest.mark.parametrize("request_id", ["act_1", "act_%00", "act_" + "g" * 32, "apr_" + "0" * 32])
async def test_what_is_no_call_is_not_found(desk: Office, request_id: str) -> None:
    assert (await (await sign_in(desk, "olga")).get(path_of(request_id))).status_code == 404


async def test_another_tenants_call_is_not_found(desk: Office) -> None:
    other = await desk.park(tenant="other")
    free = await free_call(desk, "other")
    for request_id in (other.request_id, free):
        assert (await (await sign_in(desk, "olga")).get(path_of(request_id))).status_code == 404


async def test_its_trace_is_linked_where_traces_are(desk: Office) -> None:
    request_id = await free_call(desk)
    olga = await sign_in(desk, "olga")
    assert TRACE in (await olga.get(path_of(request_id))).text
    desk.app.state.context = replace(desk.app.state.context, trace_url="https://traces.example.com/t/{trace_id}?o=1")
    assert f'href="https://traces.example.com/t/{TRACE}?o=1"' in (await olga.get(path_of(request_id))).text


@pytest.mark.parametrize("page", ["/history", "approval", "/operations"])
async def test_other_pages_lead_to_it(desk: Office, page: str) -> None:
    approval = await desk.park()
    await desk.decide(approval, "deny", reason="No.")
    reader = await sign_in(desk, "olga")
    path = f"/approvals/{approval.approval_id}" if page == "approval" else page
    assert f'href="{path_of(approval.request_id)}"' in (await reader.get(path)).text


def test_links_are_made_of_what_there_is() -> None:
    assert trace_link("", TRACE) is None
    assert trace_link("https://t.example.com/{trace_id}", None) is None
    assert workflow_link(None, "default", "call/a/b/c") is None
    assert workflow_link("http://ui/", "a b", "call/a") == "http://ui/namespaces/a%20b/workflows/call%2Fa"
    assert is_trace_url("https://t.example.com/trace/{trace_id}?x=1")
    for wrong in (
        "t.example.com/{trace_id}",
        "https://t.example.com",
        "javascript:{trace_id}",
        "https://t/{id}{trace_id}",
    ):
        assert not is_trace_url(wrong)
