"""Who may read `/metrics`, and what it never says."""

import pytest

from tests.api.conftest import Api, Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_it_takes_a_token(api: Api, somebody: Tenant, run_token: str) -> None:
    refused = await api.get("/metrics")
    assert (refused.status_code, refused.json()["code"]) == (401, "UNAUTHENTICATED")
    assert "python_info" not in refused.text
    for token in (run_token, somebody.service_token, somebody.approver_token):
        assert (await api.get("/metrics", token)).status_code == 403


async def test_no_tenants_operators_read_what_all_tenants_do(api: Api, somebody: Tenant) -> None:
    refused = await api.get("/metrics", somebody.operator_token)
    assert (refused.status_code, refused.json()["code"]) == (403, "FORBIDDEN")


async def test_operators_of_the_service_read_it(api: Api) -> None:
    _, token = await api.service.core.ledger.principals.issue("operator", "default", "olga")
    answer = await api.get("/metrics", token)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert "python_info{" in answer.text
    other = await api.get("/metrics", token, headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert other.headers["content-type"].startswith("application/openmetrics-text")
    assert other.text.endswith("# EOF\n")


async def test_the_settings_can_open_it(api: Api) -> None:
    with api.over(metrics_open=True):
        assert (await api.get("/metrics")).status_code == 200
