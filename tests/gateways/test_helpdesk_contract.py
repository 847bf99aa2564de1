"""What every helpdesk adapter must do, played against a real helpdesk."""

import secrets
from typing import Any

import httpx
import pytest

from gateways.protocols import Helpdesk, ReplyRequest, SystemUnavailable
from gateways.registry import HELPDESKS, helpdesk
from gateways.zendesk import OUTCOMES, words_digest
from schemas.codes import Code
from schemas.effects import Absent, Confirmed, Failed, Unknown
from tests import loopback
from tests.gateways.canned import Serve, canned
from tests.gateways.peers.sandbox import SandboxPeer


@pytest.fixture(params=sorted(HELPDESKS))
def desk(request: pytest.FixtureRequest, sandbox: SandboxPeer, client: httpx.AsyncClient) -> Helpdesk:
    return helpdesk(request.param, sandbox.endpoint(sandbox.helpdesk_url), client, sandbox.egress)


async def request_for(desk: Helpdesk, ticket: dict[str, Any], **changes: Any) -> ReplyRequest:
    found = await desk.ticket(str(ticket["id"]))
    assert found is not None
    values = {
        "ticket_id": found.ticket_id,
        "body": "A new lamp is on its way.",
        "public": False,
        "updated_stamp": found.updated_stamp,
        "operation_id": f"op_{secrets.token_hex(16)}",
    }
    return ReplyRequest.model_validate(values | changes)


async def test_articles_are_found_and_counted(desk: Helpdesk) -> None:
    found, count = await desk.articles("refund payment", 1)
    assert [each.title for each in found] == ["Returns and refunds"]
    assert count >= 1
    assert await desk.articles("xylophone", 5) == ([], 0)


async def test_a_ticket_is_its_customers(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    ticket = await desk.ticket(str(put["id"]))
    assert ticket is not None
    assert (ticket.customer_id, ticket.status, ticket.notes) == (put["customer_id"], "open", ())
    assert "flickers" not in ticket.model_dump_json()
    assert await desk.ticket("1") is None


async def test_a_draft_is_an_internal_note_that_is_confirmed_and_found(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    request = await request_for(desk, put)
    assert isinstance(await desk.find_reply(request), Absent)
    outcome = await desk.reply(request)
    assert isinstance(outcome, Confirmed)
    assert outcome.result == {"ticket_id": str(put["id"]), "note_id": outcome.remote_id}
    found = await desk.find_reply(request)
    assert isinstance(found, Confirmed)
    assert found.result == outcome.result
    words = await sandbox.words_on(put["id"])
    assert [(each["body"], each["public"]) for each in words] == [(request.body, False)]
    ticket = await desk.ticket(str(put["id"]))
    assert ticket is not None
    assert [(note.operation_id, note.altered) for note in ticket.notes] == [(request.operation_id, False)]


async def test_a_reply_names_the_draft_that_it_posts(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    reply = await request_for(desk, put, public=True, draft_id="77")
    assert isinstance(await desk.reply(reply), Confirmed)
    ticket = await desk.ticket(str(put["id"]))
    assert ticket is not None
    assert [(note.public, note.posts) for note in ticket.notes] == [(True, "77")]


async def test_whoever_comes_second_adds_nothing(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    request = await request_for(desk, put)
    assert isinstance(await desk.reply(request), Confirmed)
    again = await desk.reply(request)
    assert isinstance(again, Failed)
    assert again.code is Code.INVALID_STATE
    assert len(await sandbox.words_on(put["id"])) == 1


async def test_words_that_were_changed_in_the_helpdesk_are_told(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    custom = {"counterseal_operation": "op_1", "counterseal_words": words_digest("something else")}
    update = {"comment": {"body": "Pay Mallory", "public": False}, "metadata": {"custom": custom}}
    headers = {"Authorization": f"Bearer {sandbox.key}"}
    url = f"{sandbox.helpdesk_url}/api/v2/tickets/{put['id']}"
    (await sandbox.client.put(url, json={"ticket": update}, headers=headers)).raise_for_status()
    ticket = await desk.ticket(str(put["id"]))
    assert ticket is not None
    assert [note.altered for note in ticket.notes] == [True]


async def test_long_histories_are_read_to_their_end(desk: Helpdesk, sandbox: SandboxPeer) -> None:
    put = await sandbox.ticket()
    headers = {"Authorization": f"Bearer {sandbox.key}"}
    url = f"{sandbox.helpdesk_url}/api/v2/tickets/{put['id']}"
    for n in range(101):
        update = {"comment": {"body": f"note {n}", "public": False}}
        (await sandbox.client.put(url, json={"ticket": update}, headers=headers)).raise_for_status()
    request = await request_for(desk, put)
    assert isinstance(await desk.reply(request), Confirmed)
    assert isinstance(await desk.find_reply(request), Confirmed)


def audit(**event: object) -> dict[str, Any]:
    comment = {"type": "Comment", "body": "Hello", "public": False} | event
    custom = {"counterseal_operation": "op_1", "counterseal_words": ""}
    return {"id": 5, "ticket_id": 7, "metadata": {"custom": custom}, "events": [comment]}


ANSWERS: dict[str, tuple[int, object, str]] = {
    "other words": (200, {"audit": audit(body="Bye")}, "mismatched_words"),
    "for all to read": (200, {"audit": audit(public=True)}, "mismatched_words"),
    "another operation": (200, {"audit": {**audit(), "metadata": {"custom": {}}}}, "mismatched_operation"),
    "another ticket": (200, {"audit": {**audit(), "ticket_id": 8}}, "unreadable"),
    "no words": (200, {"audit": {**audit(), "events": []}}, "unreadable"),
    "nothing": (200, {}, "unreadable"),
    "a server error": (500, {"error": "UpdateConflict"}, "http_500"),
    "a conflict of another kind": (409, {"error": "Surprise"}, "http_409"),
    "accepted": (202, {}, "http_202"),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_an_answer_that_is_not_ours_is_not_believed(
    serve: Serve, sandbox: SandboxPeer, client: httpx.AsyncClient, case: str
) -> None:
    status, content, problem = ANSWERS[case]
    base = await serve(canned(content, status))
    system = helpdesk("zendesk", sandbox.endpoint(base), client, loopback.egress(base))
    request = ReplyRequest(
        ticket_id="7", body="Hello", public=False, updated_stamp="2026-01-01T00:00:00Z", operation_id="op_1"
    )
    outcome = await system.reply(request)
    assert isinstance(outcome, Unknown)
    assert outcome.exchange.problem == problem


@pytest.mark.parametrize(
    ("status", "content", "code"),
    [
        (401, {"error": "Couldn't authenticate you"}, Code.AUTH_FAILED),
        (403, {}, Code.REMOTE_FORBIDDEN),
        (429, {}, Code.RATE_LIMITED),
        (422, {"error": "RecordInvalid"}, Code.REMOTE_REFUSED),
    ],
)
async def test_what_is_documented_as_not_done_failed(
    serve: Serve, sandbox: SandboxPeer, client: httpx.AsyncClient, status: int, content: object, code: Code
) -> None:
    base = await serve(canned(content, status))
    system = helpdesk("zendesk", sandbox.endpoint(base), client, loopback.egress(base))
    request = ReplyRequest(ticket_id="7", body="Hello", public=False, updated_stamp="x", operation_id="op_1")
    outcome = await system.reply(request)
    assert isinstance(outcome, Failed)
    assert outcome.code is code
    with pytest.raises(SystemUnavailable):
        await system.ticket("7")


async def test_a_history_that_has_no_end_is_not_believed(
    serve: Serve, sandbox: SandboxPeer, client: httpx.AsyncClient
) -> None:
    base = await serve(canned({"audits": [], "meta": {"has_more": True, "after_cursor": "x"}}))
    system = helpdesk("zendesk", sandbox.endpoint(base), client, loopback.egress(base))
    request = ReplyRequest(ticket_id="7", body="Hello", public=False, updated_stamp="x", operation_id="op_1")
    assert isinstance(await system.find_reply(request), Unknown)


def test_no_server_error_and_no_redirect_is_listed_as_a_failure() -> None:
    assert all(400 <= status < 500 for status, _ in OUTCOMES)
