"""Temporal's UI is passed on as it is, but for what its settings say of payloads."""

import socket

import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from runtime.stack.errors import StackError
from runtime.stack.ports import HOST, PortClaims
from runtime.stack.ui import shown
from tests.loopback import plain_client
from tests.serving import served

API = "http://127.0.0.1:8080"
SETTINGS = {"Version": "2", "Codec": {"Endpoint": f"{API}/codec", "IncludeCredentials": False, "DefaultErrorLink": ""}}


async def _echo(request: Request) -> Response:
    said = {
        "method": request.method,
        "target": (request.scope["raw_path"] + b"?" + request.scope["query_string"]).decode(),
        "csrf": request.headers.get("x-csrf-token"),
        "host": request.headers["host"],
        "body": (await request.body()).decode(),
    }
    answer = JSONResponse(said, 418)
    for name in ("one", "two"):
        answer.set_cookie(name, "1")
    return answer


async def _settings(_: Request) -> Response:
    return JSONResponse(SETTINGS)


BEHIND = Starlette(
    routes=[Route("/api/v1/settings", _settings), Route("/{path:path}", _echo, methods=["GET", "POST", "DELETE"])]
)


async def test_everything_is_passed_on_but_the_settings() -> None:
    with PortClaims() as claims:
        port = claims.claim_any()
        async with served(BEHIND) as behind, shown(port, behind, API), plain_client() as client:
            url = f"http://{HOST}:{port}"
            told = (await client.get(f"{url}/api/v1/settings")).json()
            assert told["Version"] == "2"
            assert told["Codec"] == {
                "Endpoint": f"{API}/codec",
                "IncludeCredentials": True,
                "DefaultErrorMessage": "Payloads are shown to operators who are signed in to Counterseal",
                "DefaultErrorLink": f"{API}/signin",
            }
            target = "/api/v1/workflows/call%2Facme%2Fissue_refund%2F1/query?a=%2F&b=1"
            answer = await client.post(f"{url}{target}", content=b"asked", headers={"X-CSRF-Token": "t"})
            assert answer.status_code == 418
            assert answer.json() == {
                "method": "POST",
                "target": target,
                "csrf": "t",
                "host": f"{HOST}:{port}",
                "body": "asked",
            }
            assert [each.partition("=")[0] for each in answer.headers.get_list("set-cookie")] == ["one", "two"]
        with pytest.raises(httpx.ConnectError):
            async with plain_client() as client:
                await client.get(url)


async def test_one_that_is_away_is_said_to_be() -> None:
    with PortClaims() as claims:
        port, nobody = claims.claim_any(), claims.claim_any()
        async with shown(port, f"http://{HOST}:{nobody}", API), plain_client() as client:
            for path in ("/", "/api/v1/settings"):
                answer = await client.get(f"http://{HOST}:{port}{path}")
                assert (answer.status_code, answer.text) == (502, "Temporal's UI does not answer just now.")


async def test_a_port_that_is_taken_stops_the_stack() -> None:
    with socket.create_server((HOST, 0)) as taken, pytest.raises(StackError, match="Temporal's UI cannot be shown"):
        async with shown(taken.getsockname()[1], API, API):
            raise AssertionError
