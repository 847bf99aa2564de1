"""GET and HEAD change nothing, whoever sends them and to whatever URL (RFC 9110, section 9.2.1)."""

import re

import pytest
from fastapi.routing import APIRoute, iter_route_contexts

from ledger.inbox import ANYBODY, Filter
from ledger.ledger import Ledger
from tests.api.parked import TENANT, Office, ask_for_review, lose_answer
from tests.api.test_pages import browser, sign_in

# What looking may leave: who saw what, what was refused, and how often somebody asked.
NOTED = {"views", "diagnostics", "data_keys", "attempts", "sessions", "sign_ins"}
ROWS = {
    "events": "SELECT * FROM events WHERE type <> 'approval.viewed'",
    "calls": "SELECT request_id, status, code, approval_id, operation_id, intended_at FROM calls",
}
# In a query these would decide, if anything read them.
LURE = "decision=approve&verdict=approve&action_digest={digest}&approver=ana&csrf=x&on=all&off=all&claim=1"


async def state(ledger: Ledger) -> dict[str, str]:
    """A fingerprint of every table's rows."""
    tables = await ledger.system.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
    names = sorted({row["tablename"] for row in tables} - NOTED)
    assert {"approvals", "calls", "decisions", "events"} <= set(names)
    return {
        name: await ledger.system.fetchval(
            "SELECT md5(coalesce(string_agg(each::text, '' ORDER BY each::text), '')) "
            f"FROM ({ROWS.get(name, f'SELECT * FROM {name}')}) each"
        )
        for name in names
    }


def urls(office: Office, ids: dict[str, str]) -> list[str]:
    """Every URL that answers GET, with ids of what there is."""
    paths = {
        str(route.path)
        for route in iter_route_contexts(office.app.routes)
        if isinstance(route.original_route, APIRoute) and "GET" in (route.methods or ())
    }
    filled = {re.sub(r"{(\w+)(?::\w+)?}", lambda match: ids.get(match[1], "example"), path) for path in paths}
    assert len(filled) >= 20
    return sorted(filled)


@pytest.mark.parametrize("username", [None, "ana", "olga"])
async def test_get_and_head_of_every_url_change_nothing(desk: Office, username: str | None) -> None:
    waiting, unknown = await desk.park(), await desk.park()
    await desk.decide(unknown, "approve")
    await lose_answer(desk.ledger, unknown.request_id)
    await ask_for_review(desk.ledger, unknown.request_id)
    signals = list(desk.temporal.signals)
    before = await state(desk.ledger)
    client = browser(desk) if username is None else await sign_in(desk, username)
    posts = {
        str(route.path).replace("{approval_id}", waiting.approval_id)
        for route in iter_route_contexts(desk.app.routes)
        if "POST" in (route.methods or ())
    }
    for approval in (waiting, unknown):
        ids = {"approval_id": approval.approval_id, "request_id": approval.request_id}
        query = LURE.format(digest=approval.action_digest)
        for url in sorted({*urls(desk, ids), *posts} - {"/signout"}):
            for method in ("GET", "HEAD"):
                answer = await client.request(method, f"{url}?{query}")
                assert answer.status_code < 500 or url == "/readyz", url
    assert await state(desk.ledger) == before
    assert desk.temporal.signals == signals
    assert desk.temporal.told_to_look == []
    assert (await desk.ledger.of(TENANT).inbox.counts(TENANT, Filter(), ANYBODY)).tools == {"issue_refund": 1}
