"""Bearer tokens: in the header only, of the right kind, and alive."""

from typing import Any

import pytest

from ledger.principals import new_token
from tests.api.conftest import Api, Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROUTES: list[tuple[str, str, str]] = [
    ("POST", "/v1/runs", "service"),
    ("GET", "/v1/tools", "run"),
    ("POST", "/v1/tool-calls", "run"),
    ("GET", "/v1/tool-calls/act_00000000000000000000000000000000", "run"),
    ("POST", "/v1/tool-calls/act_00000000000000000000000000000000/cancel", "run"),
    ("GET", "/v1/approvals", "approver"),
    ("GET", "/v1/approvals/apr_00000000000000000000000000000000", "approver"),
    ("POST", "/v1/approvals/apr_00000000000000000000000000000000/decision", "approver"),
]


@pytest.mark.parametrize(("method", "path", "kind"), ROUTES)
async def test_without_a_live_token_it_is_401(api: Api, method: str, path: str, kind: str) -> None:
    offered: list[dict[str, str | bytes]] = [
        {},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer"},
        {"Authorization": "Bearer "},
        {"Authorization": f"Bearer {new_token('run')}"},
        {"Authorization": f"Bearer {new_token('run')} extra"},
        {"Authorization": "Bearer ünïcode".encode()},
    ]
    for headers in offered:
        answer = await api.request(method, path, headers=headers, json={})
        assert answer.status_code == 401
        assert answer.headers["www-authenticate"].startswith('Bearer realm="counterseal"')
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "UNAUTHENTICATED"


@pytest.mark.parametrize(("method", "path", "kind"), ROUTES)
async def test_a_token_of_another_kind_is_403(
    somebody: Tenant, run_token: str, method: str, path: str, kind: str
) -> None:
    tokens = {
        "service": somebody.service_token,
        "approver": somebody.approver_token,
        "operator": somebody.operator_token,
        "run": run_token,
    }
    for other, token in tokens.items():
        answer = await somebody.api.request(method, path, token, json={})
        if other == kind:
            assert answer.status_code not in (401, 403)
        else:
            assert answer.status_code == 403
            assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
            assert answer.json()["code"] == "FORBIDDEN"


async def test_a_token_in_the_query_the_body_or_a_cookie_is_ignored(api: Api, run_token: str) -> None:
    token = run_token
    ways: list[dict[str, Any]] = [
        {"params": {"access_token": token}},
        {"params": {"token": token, "authorization": f"Bearer {token}"}},
        {"headers": {"Cookie": f"access_token={token}; counterseal_session={token}"}},
        {"headers": {"X-Authorization": f"Bearer {token}"}},
    ]
    for way in ways:
        assert (await api.get("/v1/tools", **way)).status_code == 401
    form = {"access_token": token}
    assert (await api.post("/v1/tool-calls", data=form)).status_code == 401
    assert (await api.get("/v1/tools", token)).status_code == 200


async def test_a_revoked_token_is_out_from_the_next_request_on(api: Api) -> None:
    tenant = await api.tenant()
    principals = api.service.core.ledger.principals
    approver = await principals.authenticate(tenant.approver_token)
    assert approver is not None
    token_id, token = await principals.issue("approver", tenant.name, approver.name)
    assert (await api.get("/v1/approvals", token)).status_code == 200
    await principals.revoke(token_id)
    assert (await api.get("/v1/approvals", token)).status_code == 401


async def test_a_runs_token_ends_with_the_run(tenant: Tenant) -> None:
    token = await tenant.run("cus_1")
    await tenant.api.service.core.ledger.system.execute(
        "UPDATE runs SET expires_at = now() WHERE tenant = $1", tenant.name
    )
    answer = await tenant.api.get("/v1/tools", token)
    assert answer.status_code == 401
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]
