"""What is no route, method, header or path of ours: a problem with a registered type, and never a traceback."""

import json
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute, iter_route_contexts

from schemas.codes import REGISTRY, Code
from schemas.replies import VERSION, Problem
from tests.api.conftest import Api, Tenant

pytestmark = pytest.mark.asyncio(loop_scope="session")

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
ID = "act_" + "0" * 32


def is_problem(answer: httpx.Response, status: int, code: Code = Code.INVALID_INPUT) -> Problem:
    """The problem; the test fails when it is none, or of another status or code."""
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["counterseal-version"] == VERSION
    problem = Problem.model_validate_json(answer.content)
    assert problem.type.endswith(f"/codes/{code}")
    assert (problem.code, problem.http_status, problem.title) == (code, status, REGISTRY[code].title)
    assert status in (REGISTRY[code].http_status, *REGISTRY[code].also)
    return problem


def api_routes(app: FastAPI) -> dict[str, set[str]]:
    """Methods by path, of the routes that the description has."""
    found: dict[str, set[str]] = {}
    for route in iter_route_contexts(app.routes):
        if isinstance(route.original_route, APIRoute) and route.include_in_schema:
            found.setdefault(str(route.path), set()).update(route.methods or ())
    return found


async def test_every_other_method_of_every_route_is_405(api: Api) -> None:
    routes = api_routes(api.app)
    assert {"/v1/runs", "/v1/tools", "/v1/tool-calls", "/v1/approvals", "/healthz"} <= set(routes)
    for path, methods in routes.items():
        for method in set(METHODS) - methods:
            answer = await api.request(method, path.replace("{request_id}", ID))
            assert answer.headers["allow"] == ", ".join(sorted(methods)), path
            if method != "HEAD":
                is_problem(answer, 405)
            assert answer.status_code == 405


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "path",
    [
        "/v1",
        "/v1/",
        "/v1/runs/",
        "/v1//runs",
        "/v1/nothing",
        "/v2/runs",
        "/nothing",
        "/codes",
        "/codes/",
        "/openapi",
        "//",
    ],
)
async def test_no_such_path(api: Api, method: str, path: str) -> None:
    answer = await api.client.request(method, httpx.URL("http://counterseal.test", raw_path=path.encode()))
    assert "location" not in answer.headers
    if method != "HEAD":
        is_problem(answer, 404)
    assert (answer.status_code, answer.headers["content-type"]) == (404, "application/problem+json")


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("DELETE", "/history", 405)])
async def test_a_browser_gets_a_page(api: Api, method: str, path: str, status: int) -> None:
    browser = {"Accept": "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8"}
    answer = await api.request(method, path, headers=browser)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert ("allow" in answer.headers) == (status == 405)
    is_problem(await api.get("/v1/nothing", headers=browser), 404)


JUNK_PATHS = [
    "%00",
    "%ff%fe",
    "%ed%a0%80",
    "%1b[2J%0d%0aINFO%20fake",
    "..%2f..%2fetc%2fpasswd",
    "%252e%252e",
    "{request_id}",
    "act_" + "f" * 33,
    "ACT_" + "0" * 32,
    f"{ID}%0a",
    "%F0%9F%99%82" * 200,
    "'; DROP TABLE calls; --",
    "x" * 20_000,
]


@pytest.mark.parametrize("junk", JUNK_PATHS, ids=range(len(JUNK_PATHS)))
async def test_path_parameters_of_any_junk(tenant: Tenant, junk: str) -> None:
    run = await tenant.run("cus_1")

    async def send(method: str, path: str, token: str | None = None, **more: Any) -> httpx.Response:
        url = httpx.URL("http://counterseal.test", raw_path=path.replace(" ", "%20").encode())
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        answer = await tenant.api.client.request(method, url, headers=headers, **more)
        assert answer.headers["content-type"] == "application/problem+json"
        assert "etc/passwd" not in answer.text
        assert "fake" not in answer.text + str(answer.headers)
        return answer

    is_problem(await send("GET", f"/v1/tool-calls/{junk}", run), 404)
    is_problem(await send("POST", f"/v1/tool-calls/{junk}/cancel", run), 404)
    is_problem(await send("GET", f"/codes/{junk}"), 404)
    assert (await send("GET", f"/v1/approvals/{junk}", tenant.approver_token)).status_code == 404
    decision = {"decision": "deny", "action_digest": "0" * 64, "reason": "no"}
    path = f"/v1/approvals/{junk}/decision"
    assert (await send("POST", path, tenant.approver_token, json=decision)).status_code == 404


@pytest.mark.parametrize(
    "query",
    ["wait_seconds=%00", "wait_seconds=1&wait_seconds=2", "wait_seconds=%F0%9F%99%82", "wait_seconds=" + "9" * 9000],
)
async def test_query_parameters_of_any_junk(tenant: Tenant, query: str) -> None:
    answer = await tenant.api.get(f"/v1/tool-calls/{ID}?{query}", await tenant.run("cus_1"))
    if query.count("=") == 2:
        is_problem(answer, 404)
        return
    problem = is_problem(answer, 422)
    assert "wait_seconds must be an integer from 0 to 60" in problem.message
    assert problem.invalid_fields == ("wait_seconds",)


async def test_lists_of_approvals_refuse_any_junk(tenant: Tenant) -> None:
    for query in (
        "cursor=%00",
        "cursor=e30",
        "limit=0",
        "limit=x",
        "tool=%00",
        "tool=%ed%a0%80",
        "cursor=" + "a" * 5000,
    ):
        problem = is_problem(await tenant.api.get(f"/v1/approvals?{query}", tenant.approver_token), 422)
        assert query.partition("=")[2] not in problem.message or len(query) < 10


AUTHORIZATIONS: dict[str, bytes] = {
    "none": b"",
    "another scheme": b"Basic dXNlcjpwYXNz",
    "no scheme": b"%b",
    "no token": b"Bearer",
    "an empty token": b"Bearer ",
    "two tokens": b"Bearer %b %b",
    "two with a comma": b"Bearer %b,Bearer %b",
    "not ASCII": "Bearer ключ".encode(),
    "full-width": "Ｂｅａｒｅｒ %b".encode(),
    "a tab": b"Bearer\t%b",
    "quoted": b'Bearer "%b"',
    "long": b"Bearer " + b"x" * 60_000,
    "control characters": b"Bearer \x1b[2J\x07",
}


@pytest.mark.parametrize("name", AUTHORIZATIONS)
async def test_authorization_headers_of_any_form(tenant: Tenant, name: str) -> None:
    value = AUTHORIZATIONS[name].replace(b"%b", (await tenant.run("cus_1")).encode())
    answer = await tenant.api.client.get("/v1/tools", headers=[(b"Authorization", value)])
    is_problem(answer, 401, Code.UNAUTHENTICATED)
    assert answer.headers["www-authenticate"].startswith("Bearer ")


async def test_of_two_authorization_headers_none_counts(tenant: Tenant) -> None:
    good = f"Bearer {await tenant.run('cus_1')}"
    for other in (good, "Bearer x", ""):
        for pair in ([good, other], [other, good]):
            answer = await tenant.api.client.get("/v1/tools", headers=[("Authorization", each) for each in pair])
            is_problem(answer, 401, Code.UNAUTHENTICATED)


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "bEaReR"])
async def test_the_scheme_is_read_in_any_case(tenant: Tenant, scheme: str) -> None:
    token = await tenant.run("cus_1")
    answer = await tenant.api.client.get("/v1/tools", headers={"Authorization": f"{scheme}   {token}"})
    assert answer.status_code == 200
    assert answer.headers["counterseal-version"] == VERSION


async def test_a_token_of_another_kind_learns_which_is_wanted(tenant: Tenant) -> None:
    answer = await tenant.api.get("/v1/tools", tenant.service_token)
    assert is_problem(answer, 403, Code.FORBIDDEN).allowed == {"token_kind": "run"}


async def test_every_code_has_its_page(api: Api) -> None:
    for code in Code:
        answer = await api.get(f"/codes/{code}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "text/plain; charset=utf-8"
        assert answer.text.startswith(f"# {code}\n")
        assert REGISTRY[code].message in answer.text
    is_problem(await api.get("/codes/ok"), 404)


async def test_the_type_of_a_problem_can_be_followed(api: Api) -> None:
    problem = is_problem(await api.get("/v1/tools"), 401, Code.UNAUTHENTICATED)
    base = api.app.state.context.public_url
    assert problem.type.startswith(f"{base}/codes/")
    assert (await api.get(problem.type.removeprefix(base))).status_code == 200


async def test_an_unavailable_tool_is_answered_with_those_that_are(tenant: Tenant) -> None:
    run = await tenant.run("cus_1", tools=("lookup_orders", "issue_refund"))
    answer = await tenant.api.call(run, {}, "cancel_order")
    assert is_problem(answer, 403, Code.TOOL_NOT_AVAILABLE).allowed == {"tools": "issue_refund, lookup_orders"}


async def test_what_the_framework_refuses_by_itself_says_nothing_of_its_own(tenant: Tenant) -> None:
    answer = await tenant.api.post("/v1/runs", tenant.service_token, json={"agent_id": 7, "secret_sauce": "x"})
    problem = is_problem(answer, 422)
    assert problem.invalid_fields == ("agent_id", "actor_id", "customer_id", "tools")
    assert "agent_id must be text that matches" in problem.message
    assert "actor_id is required and must be text" in problem.message
    assert "it has a field that this request does not know" in problem.message
    for theirs in ("secret_sauce", "pydantic", "Input should", "loc", 'detail": ['):
        assert theirs not in json.dumps(answer.json())
