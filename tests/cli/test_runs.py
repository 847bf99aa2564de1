"""`counterseal runs open`, against the real API on loopback, and how `counterseal mcp` finds its service."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from ledger.principals import Principal
from runtime.cli.mcp import headers_of
from tests.api.parked import TENANT, Office, office
from tests.cli.conftest import Run
from tests.serving import served

BRUNO = ("--customer", "cus_DemoBruno001", "--tool", "issue_refund", "--tool", "lookup_orders")


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made


@pytest.fixture
async def service(desk: Office) -> AsyncIterator[tuple[str, ...]]:
    """The options that say where the service is."""
    _, token = await desk.ledger.principals.issue("service", TENANT, "runtime")
    async with served(desk.app) as url:
        yield ("--api", url, "--service-token", token)


async def holder(desk: Office, token: str) -> Principal:
    found = await desk.ledger.principals.authenticate(token)
    assert found is not None
    return found


async def test_a_run_is_opened_and_its_token_printed_alone(desk: Office, service: tuple[str, ...], run: Run) -> None:
    ran = await run("runs", "open", *BRUNO, *service)
    assert ran.status == 0, ran.err
    assert ran.complaint.startswith("run_")
    run_ = await holder(desk, ran.out.strip())
    assert run_.binding is not None
    assert (run_.binding.customer_id, run_.binding.agent_id) == ("cus_DemoBruno001", "local-agent")
    assert (run_.tools, run_.resource) == ({"issue_refund", "lookup_orders"}, None)


@pytest.mark.parametrize("only", ["mcp", "v1"])
async def test_its_token_may_be_good_at_one_interface(
    desk: Office, service: tuple[str, ...], run: Run, only: str
) -> None:
    ran = await run("runs", "open", *BRUNO, *service, "--only", only, "--json")
    assert set(ran.json) == {"run_id", "run_token", "expires_at"}
    assert (await holder(desk, ran.json["run_token"])).resource == f"http://counterseal.test/{only}"


async def test_a_run_that_is_not_opened_says_why(service: tuple[str, ...], run: Run) -> None:
    refused = await run("runs", "open", "--customer", "cus_1", "--tool", "no_such_tool", *service)
    assert (refused.status, "no run was opened" in refused.complaint) == (1, True)
    assert (await run("runs", "open", *BRUNO, "--api", service[1])).status == 2
    assert (await run("runs", "open", "--customer", "cus_1", *service)).status == 2


async def test_a_local_agent_needs_a_run(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERSEAL_RUN_TOKEN", raising=False)
    for given in ((), ("--customer", "cus_1"), ("--tool", "lookup_orders")):
        ran = await run("mcp", *given)
        assert (ran.status, "give COUNTERSEAL_RUN_TOKEN" in ran.complaint) == (2, True)
    monkeypatch.setenv("COUNTERSEAL_RUN_TOKEN", "two words")
    assert (await run("mcp", "--api", "http://127.0.0.1:1")).status == 1
    monkeypatch.setenv("COUNTERSEAL_RUN_TOKEN", "cs_run_x")
    assert (await run("mcp", "--api", "counterseal.example")).status == 2


@pytest.mark.parametrize(
    ("params", "agreed", "expected"),
    [
        ({"name": "a"}, None, {}),
        (None, "2025-11-25", {"mcp-protocol-version": "2025-11-25"}),
        ({"_meta": None}, "2025-11-25", {"mcp-protocol-version": "2025-11-25"}),
        ({"name": "a"}, "modern", {"mcp-protocol-version": "2026-07-28", "mcp-method": "m", "mcp-name": "a"}),
        ({"taskId": "act_1"}, "modern", {"mcp-protocol-version": "2026-07-28", "mcp-method": "m", "mcp-name": "act_1"}),
        ({}, "modern", {"mcp-protocol-version": "2026-07-28", "mcp-method": "m"}),
    ],
)
def test_a_message_is_said_beside_it(params: Any, agreed: str | None, expected: dict[str, str]) -> None:
    if agreed == "modern":
        params = {**params, "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
        agreed = None
    made = headers_of({"jsonrpc": "2.0", "method": "m", "params": params}, agreed)
    assert {name.lower(): value for name, value in made.items()} == expected
