"""Who may use `/mcp`, from where, with which token; and what is no message at all."""

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import httpx
import pytest

from tests.api.conftest import Api, Tenant
from tests.api.mcp.conftest import ACCEPT, HANDSHAKE, MODERN, Wire

pytestmark = pytest.mark.asyncio(loop_scope="session")

PUBLIC = "http://127.0.0.1:8080"
METADATA = f"{PUBLIC}/.well-known/oauth-protected-resource/mcp"
PROBLEM = "application/problem+json"


@contextmanager
def service_with(api: Api, **changes: Any) -> Generator[None]:
    """The application as it would be with other settings."""
    before = api.app.state.context
    api.app.state.context = replace(before, **changes)
    try:
        yield
    finally:
        api.app.state.context = before


def refused(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert (answer.status_code, answer.headers["content-type"]) == (status, PROBLEM), answer.text
    assert answer.json()["code"] == code
    return answer.json()


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
async def test_without_a_token_it_says_where_to_look(api: Api, version: str) -> None:
    answer = await Wire(api, None, version).send("tools/list")
    refused(answer, 401, "UNAUTHENTICATED")
    assert answer.headers["www-authenticate"] == f'Bearer realm="counterseal", resource_metadata="{METADATA}"'
    unknown = await Wire(api, "cs_run_unknown", version).send("tools/list")
    refused(unknown, 401, "UNAUTHENTICATED")
    assert unknown.headers["www-authenticate"].endswith('error="invalid_token"')


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp"])
async def test_the_metadata_names_the_resource(api: Api, path: str) -> None:
    answer = await api.get(path)
    assert answer.json()["resource"] == f"{PUBLIC}/mcp"
    assert answer.json()["bearer_methods_supported"] == ["header"]


async def test_other_tokens_than_a_run_s_are_refused(api: Api, somebody: Tenant) -> None:
    for token in (somebody.service_token, somebody.approver_token, somebody.operator_token):
        answer = await Wire(api, token).send("tools/list")
        assert refused(answer, 403, "FORBIDDEN")["allowed"] == {"token_kind": "run"}
        assert 'error="insufficient_scope"' in answer.headers["www-authenticate"]
        assert METADATA in answer.headers["www-authenticate"]


async def test_a_token_is_good_where_it_was_made_for(api: Api, somebody: Tenant) -> None:
    for_mcp = await somebody.run("cus_1", resource=f"{PUBLIC}/mcp")
    for_http = await somebody.run("cus_1", resource=f"{PUBLIC}/v1")
    for_both = await somebody.run("cus_1")
    for token, over_mcp, over_http in ((for_mcp, 200, 401), (for_http, 401, 200), (for_both, 200, 200)):
        assert (await Wire(api, token).send("tools/list")).status_code == over_mcp
        assert (await api.get("/v1/tools", token)).status_code == over_http
    answer = await Wire(api, for_http).send("tools/list")
    refused(answer, 401, "UNAUTHENTICATED")
    assert 'error="invalid_token"' in answer.headers["www-authenticate"]


async def test_a_token_of_a_service_with_another_name_is_refused(api: Api, somebody: Tenant) -> None:
    token = await somebody.run("cus_1", resource=f"{PUBLIC}/mcp")
    with service_with(api, public_url="http://127.0.0.1:9090"):
        refused(await Wire(api, token).send("tools/list"), 401, "UNAUTHENTICATED")


@pytest.mark.parametrize("resource", ["https://elsewhere.example/mcp", f"{PUBLIC}/mcp/", PUBLIC, "", "mcp"])
async def test_no_token_is_made_for_anything_else(api: Api, somebody: Tenant, resource: str) -> None:
    body = {"agent_id": "bot", "actor_id": "u", "customer_id": "c", "tools": ["issue_refund"], "resource": resource}
    answer = await api.post("/v1/runs", somebody.service_token, json=body)
    problem = refused(answer, 422, "INVALID_INPUT")
    assert problem["invalid_fields"] == ["resource"]
    assert f"{PUBLIC}/mcp" in problem["message"]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8080",
        "127.0.0.1.evil.example:8080",
        "localhost@evil.example",
        "10.0.0.1",
        "localhost/x",
        "localhost:99999",
        "localhost:x",
        "",
    ],
)
async def test_a_name_that_was_pointed_here_is_refused(api: Api, run_token: str, host: str) -> None:
    refused(await replace(Wire(api, run_token), host=host).send("tools/list"), 403, "FORBIDDEN")


@pytest.mark.parametrize("host", ["127.0.0.1:8080", "localhost:8080", "LOCALHOST:8080", "[::1]:8080", "127.0.0.1"])
async def test_this_machine_s_names_are_good_for_a_service_on_it(api: Api, run_token: str, host: str) -> None:
    assert (await replace(Wire(api, run_token), host=host).send("tools/list")).status_code == 200


@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "null",
        "http://localhost.evil.example:8080",
        "file://",
        "chrome-extension://localhost",
        "ws://127.0.0.1:8080",
        "//localhost",
        "http://localhost:8080/",
    ],
)
async def test_a_page_of_somebody_else_is_refused(api: Api, run_token: str, origin: str) -> None:
    refused(await Wire(api, run_token).send("tools/list", Origin=origin), 403, "FORBIDDEN")


async def test_a_page_of_this_machine_may(api: Api, run_token: str) -> None:
    for origin in (PUBLIC, "http://localhost:6274"):
        assert (await Wire(api, run_token).send("tools/list", Origin=origin)).status_code == 200


async def test_a_service_with_a_name_answers_to_it_and_to_what_is_added(api: Api, run_token: str) -> None:
    wire, here = Wire(api, run_token), Wire(api, run_token, host="counterseal.example")
    with service_with(
        api,
        public_url="https://counterseal.example",
        mcp_hosts=("counterseal.internal:8080",),
        mcp_origins=("https://agents.example",),
    ):
        for host in (
            "counterseal.example",
            "Counterseal.Example",
            "counterseal.example:443",
            "counterseal.internal:8080",
        ):
            for origin in ("https://counterseal.example", "https://agents.example"):
                assert (await replace(wire, host=host).send("tools/list", Origin=origin)).status_code == 200
        for host in ("127.0.0.1:8080", "localhost", "counterseal.example:8443", "counterseal.internal"):
            refused(await replace(wire, host=host).send("tools/list"), 403, "FORBIDDEN")
        for origin in ("http://counterseal.example", "http://localhost", "https://agents.example:8443"):
            refused(await here.send("tools/list", Origin=origin), 403, "FORBIDDEN")


NO_MESSAGES: dict[str, tuple[bytes, int]] = {
    "no JSON": (b"{", 400),
    "a name twice": (b'{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/list"}', 400),
    "NaN": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN}}', 400),
    "too deep": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":' + b'{"a":' * 40 + b"1" + b"}" * 41, 400),
    "too long": (b'{"a":"' + b"x" * 70_000 + b'"}', 413),
    "a batch": (b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]', 422),
    "a response": (b'{"jsonrpc":"2.0","id":1,"result":{}}', 400),
    "no version": (b'{"id":1,"method":"ping"}', 400),
    "an id that is none": (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', 400),
    "params that are none": (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[1]}', 400),
}


@pytest.mark.parametrize("version", [MODERN, HANDSHAKE])
@pytest.mark.parametrize("name", NO_MESSAGES)
async def test_what_is_no_message_is_refused_in_our_words(api: Api, run_token: str, name: str, version: str) -> None:
    body, status = NO_MESSAGES[name]
    headers = {
        "Host": "127.0.0.1:8080",
        "Accept": ACCEPT,
        "Content-Type": "application/json",
        "MCP-Protocol-Version": version,
    }
    answer = await api.post("/mcp", run_token, content=body, headers=headers)
    assert answer.status_code == status, answer.text
    error = answer.json()["error"]
    assert (answer.json()["id"], error["data"]["code"]) == (None, "INVALID_INPUT")
    assert error["message"] == error["data"]["message"]


async def test_an_answer_that_is_not_accepted_is_not_sent(api: Api, run_token: str) -> None:
    for accept in ("text/html", "text/event-stream"):
        answer = await Wire(api, run_token).send("tools/list", Accept=accept)
        assert (answer.status_code, answer.json()["error"]["data"]["code"]) == (406, "INVALID_INPUT")
    assert (await Wire(api, run_token).send("tools/list", Accept="application/json")).status_code == 200
    listen = {"notifications": {"toolsListChanged": True}}
    answer = await Wire(api, run_token).send("subscriptions/listen", listen, Accept="application/json")
    assert answer.status_code == 406


async def test_a_revision_that_nobody_knows_is_refused(api: Api, run_token: str) -> None:
    answer = await Wire(api, run_token, "2031-01-01").send("tools/list")
    assert (answer.status_code, "error" in answer.json()) == (400, True)


@pytest.mark.parametrize("method", ["DELETE", "PUT", "PATCH"])
async def test_there_are_no_sessions_to_end(api: Api, run_token: str, method: str) -> None:
    answer = await api.request(method, "/mcp", run_token, headers={"Host": "127.0.0.1:8080"})
    refused(answer, 405, "INVALID_INPUT")
    assert answer.headers["allow"] == "GET, POST"


async def test_an_unknown_method_is_the_protocol_s_fault(api: Api, run_token: str) -> None:
    answer = await Wire(api, run_token).send("no/such")
    assert answer.json()["error"]["code"] == -32601


async def test_what_is_said_of_every_response_holds(api: Api, run_token: str) -> None:
    answer = await Wire(api, run_token).send("tools/list")
    assert answer.headers["counterseal-version"] == "1"
    assert answer.headers["x-content-type-options"] == "nosniff"
