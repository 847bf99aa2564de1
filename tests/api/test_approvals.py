"""The approver's JSON API: who may see and decide what, and that only what was shown is decided."""

import asyncio
from collections import Counter
from datetime import datetime, timedelta
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api, Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _decide(tenant: Tenant, approval: dict[str, Any], token: str | None = None, **changes: Any) -> httpx.Response:
    body = {"decision": "approve", "action_digest": approval["action_digest"], **changes}
    path = f"/v1/approvals/{approval['approval_id']}/decision"
    return await tenant.api.post(path, token or tenant.approver_token, json=body)


async def test_an_approval_shows_the_action_as_it_will_be_executed(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    answer = await api.get(f"/v1/approvals/{parked['approval_id']}", tenant.approver_token)
    approval = answer.json()
    contract = (
        "approval_id request_id tool tool_version arguments facts facts_at rule policy_version action_digest status"
        " requested_at expires_at decisions untrusted"
    )
    assert set(contract.split()) <= set(approval)
    assert approval["arguments"]["amount_cents"] == 25_000
    assert "idempotency_key" not in approval["arguments"]
    assert (approval["status"], approval["decisions"], approval["rule"]) == ("open", [], "over_threshold")
    assert approval["expires_at"].endswith("Z")


async def test_pages_hold_every_approval_once_at_any_limit(api: Api, tenant: Tenant) -> None:
    parked = [await tenant.parked() for _ in range(5)]
    expected = [each["approval_id"] for each in sorted(parked, key=lambda a: (a["expires_at"], a["approval_id"]))]
    for limit in range(1, 7):
        seen: list[str] = []
        cursor = None
        while True:
            params = {"limit": limit} | ({"cursor": cursor} if cursor else {})
            page = (await api.get("/v1/approvals", tenant.approver_token, params=params)).json()
            assert len(page["approvals"]) <= limit
            seen += [each["approval_id"] for each in page["approvals"]]
            cursor = page["next_cursor"]
            if cursor is None:
                break
        assert seen == expected
    filtered = await api.get("/v1/approvals", tenant.approver_token, params={"tool": "cancel_order"})
    assert filtered.json() == {"approvals": [], "next_cursor": None}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=501",
        "limit=x",
        "cursor=x",
        "cursor=%00",
        "cursor=MjAyNi0wMS0wMVQwMDowMDowMHxhcHJfMQBh",
        "cursor=OTk5OS0xMi0zMVQyMzo1OTo1OS0yMzowMHxhcHJfMA",
        "tool=%00",
        "tool=" + "x" * 65,
    ],
)
async def test_a_list_asked_for_wrongly_is_refused(tenant: Tenant, query: str) -> None:
    answer = await tenant.api.get(f"/v1/approvals?{query}", tenant.approver_token)
    assert answer.status_code == 422
    assert answer.json()["code"] == "INVALID_INPUT"


async def test_another_tenants_approval_is_not_there(api: Api, tenant: Tenant) -> None:
    parked, other = await tenant.parked(), await api.tenant()
    ids = [parked["approval_id"], "apr_" + "0" * 32, "%00", "x" * 3_000]
    seen = [await api.get(f"/v1/approvals/{each}", other.approver_token) for each in ids]
    assert {(answer.status_code, answer.text) for answer in seen} == {(404, seen[0].text)}
    decided = [
        await api.post(
            f"/v1/approvals/{each}/decision",
            other.approver_token,
            json={"decision": "approve", "action_digest": parked["action_digest"]},
        )
        for each in ids
    ]
    assert {(answer.status_code, answer.text) for answer in decided} == {(404, decided[0].text)}
    assert (await api.get("/v1/approvals", other.approver_token)).json()["approvals"] == []


async def test_only_what_was_shown_is_decided(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    stale = await _decide(tenant, parked, action_digest="0" * 64)
    assert stale.status_code == 409
    assert (await api.get(f"/v1/approvals/{parked['approval_id']}", tenant.approver_token)).json()["status"] == "open"
    assert (await _decide(tenant, parked)).status_code == 200
    again = await _decide(tenant, parked, decision="deny", reason="no")
    assert again.status_code == 409
    assert again.headers["content-type"] == "application/problem+json"


async def test_of_many_decisions_at_once_the_first_wins(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    answers = await asyncio.gather(
        *(_decide(tenant, parked, **({} if n % 2 else {"decision": "deny", "reason": "no"})) for n in range(12))
    )
    assert Counter(answer.status_code for answer in answers) == {200: 1, 409: 11}
    settled = await api.get(f"/v1/tool-calls/{parked['request_id']}", parked["run_token"], params={"wait_seconds": 60})
    approved = next(answer for answer in answers if answer.status_code == 200).json()["status"] == "approved"
    assert settled.json()["status"] == ("executed" if approved else "denied")
    assert len(await api.service.outside.effects(parked["order"])) == approved


async def test_nothing_is_decided_after_the_deadline(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    await api.service.core.ledger.system.execute(
        "UPDATE approvals SET expires_at = now() WHERE approval_id = $1", parked["approval_id"]
    )
    assert (await _decide(tenant, parked)).status_code == 409
    assert await api.service.outside.effects(parked["order"]) == []


async def test_a_denial_needs_a_reason(tenant: Tenant) -> None:
    parked = await tenant.parked()
    for reason in ("", "   ", "\n"):
        assert (await _decide(tenant, parked, decision="deny", reason=reason)).status_code == 422
    assert (await _decide(tenant, parked, decision="deny", reason="not this time")).json() == {"status": "denied"}


@pytest.mark.parametrize(
    "change",
    [
        {"decision": "APPROVE"},
        {"decision": "maybe"},
        {"decision": True},
        {"action_digest": "0" * 63},
        {"action_digest": None},
        {"reason": "x" * 2_001},
        {"reason": 1},
        {"approver": "ben"},
    ],
)
async def test_a_decision_of_the_wrong_form_is_refused(tenant: Tenant, change: dict[str, Any]) -> None:
    parked = await tenant.parked()
    assert (await _decide(tenant, parked, **change)).status_code == 422
    assert (await _decide(tenant, parked)).status_code == 200


async def test_the_requesters_side_never_decides(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    for token in (tenant.service_token, tenant.operator_token, parked["run_token"]):
        assert (await _decide(tenant, parked, token)).status_code == 403


@pytest.mark.parametrize("side", ["agent_id", "actor_id"])
async def test_a_person_who_is_the_requester_does_not_decide(api: Api, tenant: Tenant, side: str) -> None:
    principals = api.service.core.ledger.principals
    username = f"{side.replace('_', '')}{tenant.name}"
    await api.person(tenant.name, username, "finance")
    _, token = await principals.issue("approver", tenant.name, username)
    parked = await tenant.parked(**{side: username.upper()})
    assert (await _decide(tenant, parked, token)).status_code == 403
    assert (await _decide(tenant, parked)).status_code == 200


async def test_an_approver_of_another_group_does_not_decide(api: Api, tenant: Tenant) -> None:
    principals = api.service.core.ledger.principals
    await api.person(tenant.name, f"legal{tenant.name}", "legal")
    _, token = await principals.issue("approver", tenant.name, f"legal{tenant.name}")
    parked = await tenant.parked()
    assert (await _decide(tenant, parked, token)).status_code == 403


async def test_an_approvers_token_without_a_person_opens_nothing(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    _, token = await api.service.core.ledger.principals.issue("approver", tenant.name, "no-such-person")
    assert (await _decide(tenant, parked, token)).status_code in (401, 403)


async def test_reading_changes_nothing(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    before = await api.rows()
    path = f"/v1/approvals/{parked['approval_id']}"
    for each in (path, "/v1/approvals", f"/v1/tool-calls/{parked['request_id']}"):
        token = parked["run_token"] if "tool-calls" in each else tenant.approver_token
        await api.get(each, token)
        await api.request("HEAD", each, token)
    assert (await api.get(f"{path}/decision", tenant.approver_token)).status_code == 405
    assert await api.rows() == before


async def _extend(tenant: Tenant, approval: dict[str, Any], token: str | None = None, **body: Any) -> httpx.Response:
    path = f"/v1/approvals/{approval['approval_id']}/deadline"
    return await tenant.api.post(path, token or tenant.approver_token, json=body)


async def test_another_console_gives_more_time(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    until = _later(parked, hours=5)
    answer = await _extend(tenant, parked, expires_at=until, reason="the bank calls back")
    assert (answer.status_code, answer.json()) == (200, {"expires_at": until})
    shown = await api.get(f"/v1/approvals/{parked['approval_id']}", tenant.approver_token)
    assert shown.json()["expires_at"] == until
    progress = await api.get(f"/v1/tool-calls/{parked['request_id']}", parked["run_token"])
    assert progress.json()["expires_at"] == until, "the agent is told, too"
    assert (await _extend(tenant, parked, expires_at=until, reason="again")).status_code == 409
    far = _later(parked, days=7)
    assert (await _extend(tenant, parked, expires_at=far, reason="for long")).status_code == 422
    assert (await _decide(tenant, parked)).json() == {"status": "approved"}
    assert (await _extend(tenant, parked, expires_at=_later(parked, hours=9), reason="late")).status_code == 409


@pytest.mark.parametrize(
    "change",
    [
        {"expires_at": "2026-12-01"},
        {"expires_at": "2026-12-01T10:00:00"},
        {"expires_at": "2026-12-01T10:00:00.5Z"},
        {"expires_at": "2026-13-01T10:00:00Z"},
        {"expires_at": 1_800_000_000},
        {"expires_at": None},
        {"reason": ""},
        {"reason": "  "},
        {"reason": "x" * 2_001},
        {"reason": None},
        {"hours": 3},
    ],
)
async def test_a_deadline_that_does_not_fit_is_refused(api: Api, tenant: Tenant, change: dict[str, Any]) -> None:
    parked = await tenant.parked()
    body = {"expires_at": _later(parked, hours=1), "reason": "why", **change}
    assert (await _extend(tenant, parked, **body)).status_code == 422
    shown = await api.get(f"/v1/approvals/{parked['approval_id']}", tenant.approver_token)
    assert shown.json()["expires_at"] == parked["expires_at"]


async def test_a_stranger_moves_no_deadline(api: Api, tenant: Tenant) -> None:
    parked, other = await tenant.parked(), await api.tenant()
    body = {"expires_at": _later(parked, hours=1), "reason": "why"}
    assert (await _extend(tenant, parked, other.approver_token, **body)).status_code == 404
    assert (await _extend(tenant, parked, parked["run_token"], **body)).status_code == 403
    await api.person(tenant.name, "cleo", "support")
    _, token = await api.service.core.ledger.principals.issue("approver", tenant.name, "cleo")
    assert (await _extend(tenant, parked, token, **body)).status_code == 403


async def test_another_console_claims_takes_over_and_lets_go(api: Api, tenant: Tenant) -> None:
    parked = await tenant.parked()
    path, body = f"/v1/approvals/{parked['approval_id']}", {"take_over": True}
    await api.person(tenant.name, f"cleo{tenant.name}", "finance")
    _, hers = await api.service.core.ledger.principals.issue("approver", tenant.name, f"cleo{tenant.name}")
    claimed = await api.post(f"{path}/claim", tenant.approver_token, json={})
    assert claimed.status_code == 200
    assert set(claimed.json()) == {"username", "display_name", "since", "until"}
    listed = (await api.get("/v1/approvals", hers)).json()["approvals"]
    assert listed[0]["claimed_by"] == claimed.json()
    refused = await _decide(tenant, parked, hers)
    assert (refused.status_code, claimed.json()["display_name"] in refused.json()["detail"]) == (409, True)
    assert (await api.post(f"{path}/claim", hers, json={})).status_code == 409
    assert (await api.post(f"{path}/claim", hers, json={"take_over": "yes"})).status_code == 422
    assert (await api.post(f"{path}/claim", hers, json=body)).status_code == 200
    assert (await _decide(tenant, parked)).status_code == 409
    assert (await api.post(f"{path}/release", hers, json={})).status_code == 204
    assert (await _decide(tenant, parked)).json() == {"status": "approved"}
    assert (await api.post(f"{path}/claim", hers, json=body)).status_code == 409


def _later(approval: dict[str, Any], **more: int) -> str:
    moved = datetime.fromisoformat(approval["expires_at"]) + timedelta(**more)
    return moved.strftime("%Y-%m-%dT%H:%M:%SZ")
