"""What others wrote, against two API processes of which each answers every other request: the official conformance
suite, the official inspector's command line, and the official Python client over HTTP and `counterseal mcp`."""

import asyncio
import json
import os
import re
import secrets
import sys
from pathlib import Path
from typing import Any, Literal

import pytest
from mcp import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.api.mcp.bearing import bearing
from tests.api.mcp.conftest import HANDSHAKE, MODERN, Pair
from tests.gateways.peers.programs import PEERS, ROOT, node

pytestmark = pytest.mark.asyncio(loop_scope="session")

SUITE = PEERS / "node_modules/@modelcontextprotocol/conformance/dist/index.js"
INSPECTOR = PEERS / "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
EXPECTED = Path(__file__).with_name("conformance.yaml")
ORDER = {"order_id": "ord_8f2b91a04c7d", "amount_cents": 4999, "currency": "USD", "reason_code": "damaged"}
Mode = Literal["auto", "legacy"]


async def ran(script: Path, *arguments: str | Path) -> tuple[int | None, str, str]:
    """(exit status, output, errors) of a peer."""
    found = node()
    if found is None or not script.exists():
        pytest.fail(f"{script.parent} is not installed: make peers")
    process = await asyncio.create_subprocess_exec(
        found,
        script,
        *arguments,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    async with asyncio.timeout(120):
        out, err = await process.communicate()
    return process.returncode, out.decode(), err.decode()


async def test_the_conformance_suite_finds_no_other_fault(pair: Pair, tmp_path: Path) -> None:
    async with bearing(pair.one.tokens["run"], pair.one.url, pair.other.url) as url:
        status, out, err = await ran(
            SUITE, "server", "--url", f"{url}/mcp", "--suite", "all", "--expected-failures", EXPECTED, "-o", tmp_path
        )
    assert status == 0, out + err
    passed = set(re.findall(r"^✓ ([a-z0-9-]+)", out, re.MULTILINE))
    assert passed >= {
        "server-initialize",
        "ping",
        "tools-list",
        "tools-call-simple-text",
        "tools-call-error",
        "tools-call-with-progress",
        "json-schema-2020-12",
        "dns-rebinding-protection",
    }
    (said,) = tmp_path.glob("*tools-call-simple-text*/checks.json")
    assert "executed" in said.read_text(), "it was really called"


async def test_the_inspector_s_command_line_lists_and_calls(pair: Pair) -> None:
    asked = ("--cli", f"{pair.one.url}/mcp", "--transport", "http")
    token = ("--header", f"Authorization: Bearer {pair.one.tokens['run']}")
    status, out, err = await ran(INSPECTOR, *asked, *token, "--method", "tools/list")
    assert status == 0, out + err
    assert {"issue_refund", "check_call"} <= {tool["name"] for tool in json.loads(out)["tools"]}
    status, out, err = await ran(INSPECTOR, *asked, *token, "--method", "tools/call", "--tool-name", "test_simple_text")
    assert status == 0, out + err
    assert json.loads(out)["structuredContent"]["status"] == "executed"
    status, out, err = await ran(INSPECTOR, *asked, "--method", "tools/list")
    assert status != 0


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", HANDSHAKE)])
async def test_the_python_client_uses_both_processes_as_one(pair: Pair, mode: Mode, version: str) -> None:
    arguments = {**ORDER, "idempotency_key": secrets.token_hex(16)}
    async with (
        bearing(pair.one.tokens["run"], pair.one.url, pair.other.url) as url,
        Client(f"{url}/mcp", mode=mode) as client,
    ):
        assert client.protocol_version == version
        await client.list_tools()
        replies = [(await client.call_tool("issue_refund", arguments)).structured_content for _ in range(4)]
        assert all(reply == replies[0] for reply in replies), "one key, one call, whichever process is asked"
        assert replies[0] is not None
        assert replies[0]["code"] == "ORDER_NOT_FOUND"
        seen = [
            (await client.call_tool("check_call", {"request_id": replies[0]["request_id"]})).structured_content
            for _ in range(2)
        ]
        assert seen == [replies[0]] * 2
        heard: list[float] = []

        async def hear(progress: float, total: float | None, message: str | None) -> None:
            heard.append(progress)

        slow = await client.call_tool("test_tool_with_progress", {}, progress_callback=hear)
        assert (slow.is_error, len(heard) >= 3, heard) == (False, True, sorted(heard))


@pytest.mark.parametrize(("mode", "version"), [("auto", MODERN), ("legacy", HANDSHAKE)])
async def test_a_local_agent_speaks_over_standard_input_and_output(pair: Pair, mode: Mode, version: str) -> None:
    async with Client(stdio_client(_local(pair, COUNTERSEAL_RUN_TOKEN=pair.one.tokens["run"])), mode=mode) as client:
        assert client.protocol_version == version
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert {"issue_refund", "test_simple_text", "check_call"} <= names
        said = await client.call_tool("test_simple_text", {})
        assert said.structured_content is not None
        assert said.structured_content["status"] == "executed"


async def test_a_local_agent_may_have_a_run_opened(pair: Pair) -> None:
    opening = _local(
        pair,
        "--customer",
        "cus_1",
        "--tool",
        "lookup_orders",
        COUNTERSEAL_SERVICE_TOKEN=pair.one.tokens["service"],
    )
    async with Client(stdio_client(opening)) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["lookup_orders"]


def _local(pair: Pair, *arguments: str, **environment: str) -> StdioServerParameters:
    command = ["-m", "runtime.cli.main", "mcp", "--api", pair.one.url, *arguments]
    env = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment}
    return StdioServerParameters(command=sys.executable, args=command, env=env)


async def _line(agent: asyncio.subprocess.Process, message: dict[str, Any]) -> dict[str, Any]:
    assert agent.stdin is not None
    assert agent.stdout is not None
    agent.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
    async with asyncio.timeout(60):
        return json.loads(await agent.stdout.readline())


@pytest.mark.parametrize("reachable", [True, False])
async def test_a_local_agent_is_told_why_not_and_by_the_protocol_alone(pair: Pair, reachable: bool) -> None:
    url = pair.one.url if reachable else "http://127.0.0.1:1"
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "runtime.cli.main",
        "mcp",
        "--api",
        url,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "COUNTERSEAL_RUN_TOKEN": "cs_run_unknown"},
    )
    try:
        for number in (1, 2):
            answer = await _line(agent, {"id": number, "method": "ping"})
            assert answer["id"] == number
            if reachable:
                assert answer["error"]["data"]["code"] == "UNAUTHENTICATED"
            else:
                assert "The service does not answer" in answer["error"]["message"]
        assert agent.stdin is not None
        agent.stdin.close()
        async with asyncio.timeout(60):
            out, err = await agent.communicate()
        assert (agent.returncode, out, err) == (0, b"", b"")
    finally:
        if agent.returncode is None:
            agent.kill()
            await agent.wait()
