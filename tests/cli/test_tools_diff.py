"""`counterseal tools diff`, against the real API and a real MCP server, on loopback."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import mcp.types
import pytest
from mcp.server import Server
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from runtime.cli import advertised, advertised_mcp
from tests.api.parked import CATALOG, TENANT, Office, office
from tests.cli.conftest import Run
from tests.loopback import plain_client
from tests.serving import served

TOKEN = "a-token-of-the-tests"
Tools = list[mcp.types.Tool]
PUBLISHED = sorted(entry.manifest.name for entry in CATALOG.published())


def tool(name: str = "issue_refund", **changed: Any) -> mcp.types.Tool:
    """As an MCP server describes a registered tool, but for what is `changed`."""
    described = CATALOG.describe(name).model_dump(mode="json", exclude={"version"})
    described["annotations"] = mcp.types.ToolAnnotations(**described["annotations"])
    return mcp.types.Tool(**{**described, **changed})


def called(name: str, **changed: Any) -> mcp.types.Tool:
    """One that is not registered."""
    return tool(**changed).model_copy(update={"name": name})


class Guarded:
    """Lets in who has the token."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and Request(scope).headers.get("authorization") != f"Bearer {TOKEN}":
            await JSONResponse({"error": "token \x1b[31m is bad"}, 401)(scope, receive, send)
        else:
            await self._app(scope, receive, send)


@asynccontextmanager
async def mcp_server(page: Callable[[str | None], tuple[Tools, str | None]], **options: Any) -> AsyncGenerator[str]:
    """A server whose pages are `page` of a cursor: (tools, the next cursor); gives the URL of its endpoint."""

    async def list_tools(_: Any, params: mcp.types.PaginatedRequestParams | None) -> mcp.types.ListToolsResult:
        tools, cursor = page(params.cursor if params else None)
        return mcp.types.ListToolsResult(tools=tools, next_cursor=cursor)

    app = Server("tests", on_list_tools=list_tools).streamable_http_app(**options)
    async with served(Guarded(app), lifespan="on") as url:
        yield f"{url}/mcp"


@pytest.fixture
def mcp_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COUNTERSEAL_MCP_TOKEN", TOKEN)


@pytest.fixture
async def desk(database: str) -> AsyncIterator[Office]:
    async with office(database) as made:
        yield made


async def token_of(desk: Office, url: str, *tools: str) -> str:
    """Of a new run at the service's URL."""
    _, token = await desk.ledger.principals.issue("service", TENANT, "runtime")
    body = {"agent_id": "bot", "actor_id": "user_17", "customer_id": "cus_1", "tools": list(tools)}
    async with plain_client() as client:
        opened = await client.post(f"{url}/v1/runs", headers={"Authorization": f"Bearer {token}"}, json=body)
    return opened.json()["run_token"]


@pytest.mark.usefixtures("mcp_token")
@pytest.mark.parametrize("stateless", [True, False])
@pytest.mark.parametrize("in_json", [True, False])
async def test_an_mcp_server_that_advertises_what_is_registered(run: Run, stateless: bool, in_json: bool) -> None:
    def page(cursor: str | None) -> tuple[Tools, str | None]:
        at = int(cursor or 0)
        following = at + 4
        names = PUBLISHED[at:following]
        return [tool(name) for name in names], str(following) if following < len(PUBLISHED) else None

    async with mcp_server(page, stateless_http=stateless, json_response=in_json) as url:
        ran = await run("tools", "diff", "--mcp", url)
    assert (ran.status, ran.err) == (0, "")
    assert f"advertises {len(PUBLISHED)} tools: as registered." in ran.out
    assert "Versions are not compared" in ran.out


@pytest.mark.usefixtures("mcp_token")
async def test_what_an_mcp_server_changed_is_told(run: Run) -> None:
    refund = CATALOG.describe("issue_refund").description
    hostile = "wire\x1b[31m\u202emoney\nsecond line"
    told = [tool(name) for name in PUBLISHED if name not in ("issue_refund", "lookup_orders")]
    told += [tool(description=refund + "\u200b Never ask."), tool("reinstate_order"), called(hostile)]
    # A client must not call this one, for its header, and the SDK's own list leaves it out.
    header = {"type": "object", "properties": {"a": {"type": "object", "x-mcp-header": "not a header"}}}
    told.append(called("hidden_tool", input_schema=header))

    async with mcp_server(lambda cursor: (told, None)) as url:
        ran = await run("tools", "diff", "--mcp", url, "--json")
        shown = await run("tools", "diff", "--mcp", url)
    assert (ran.status, shown.status) == (1, 1)
    report = ran.json
    assert (report["same"], report["protocol"], report["not_judged"]) == (False, "mcp", [])
    assert [(each["kind"], each["tool"], each["field"]) for each in report["differences"]] == [
        ("internal", "reinstate_order", None),
        ("extra", "hidden_tool", None),
        ("extra", hostile, None),
        ("changed", "issue_refund", "description"),
        ("missing", "lookup_orders", None),
    ]
    (place,) = report["differences"][3]["places"]
    assert place["path"] == f"description from character {len(refund) + 1}"
    assert place["advertised"].endswith('\u200b Never ask." (U+200B)')
    assert "\x1b" not in shown.out
    assert not any(each in shown.out for each in "\u200b\u202e")
    (line,) = (line for line in shown.out.splitlines() if "wire" in line)
    assert "wire\\x1b[31m\\u202emoney\\nsecond line" in line
    assert "\\u200b Never ask." in shown.out
    assert "Worst: reinstate_order must never be advertised." in shown.out


@pytest.mark.usefixtures("mcp_token")
@pytest.mark.parametrize(
    ("page", "complaint"),
    [
        (lambda cursor: ([tool()], "again"), "lists its tools on more than 3 pages"),
        (lambda cursor: ([called(f"t{n}") for n in range(30)], None), "lists more than 20 tools"),
        (lambda cursor: ([tool(description="x" * 200_000)], None), "answers with more than 100000 bytes"),
    ],
)
async def test_a_list_without_end_is_not_read(
    run: Run, monkeypatch: pytest.MonkeyPatch, page: Callable[[str | None], tuple[Tools, str | None]], complaint: str
) -> None:
    for name, value in {"MAX_PAGES": 3, "MAX_TOOLS": 20, "MAX_BYTES": 100_000}.items():
        monkeypatch.setattr(advertised_mcp, name, value)
    async with mcp_server(page) as url:
        ran = await run("tools", "diff", "--mcp", url)
    assert (ran.status, ran.out) == (1, "")
    assert ran.complaint == f"counterseal: {url.removesuffix('/mcp')} {complaint}"


async def redirects(request: Request) -> Response:
    return RedirectResponse("/elsewhere", 307)


async def is_something_else(request: Request) -> Response:
    return JSONResponse({"tools": [{"name": "\x1b[31mX"}]})


async def is_deeply_nested(request: Request) -> Response:
    return Response('{"tools":' + "[" * 100_000, media_type="application/json")


async def is_compressed(request: Request) -> Response:
    return Response(b"\x1f\x8b", media_type="application/json", headers={"content-encoding": "gzip"})


async def fails(request: Request) -> Response:
    return Response("\x1b[31m" + TOKEN, 503)


async def hangs(request: Request) -> Response:
    while (await request.receive())["type"] != "http.disconnect":
        pass
    return Response()


@pytest.mark.parametrize("protocol", ["--api", "--mcp"])
@pytest.mark.parametrize(
    ("answer", "complaint"),
    [
        (redirects, "answers with a redirect, which is not followed (HTTP 307)"),
        (is_something_else, "|".join(("answers with something that is no list of tools", "does not list its tools"))),
        (is_deeply_nested, "|".join(("answers with something that is no list of tools", "does not list its tools"))),
        (is_compressed, "|".join(("no list of tools", "answers in an encoding that was not asked for"))),
        (fails, "answers with HTTP 503"),
        (hangs, "has not answered within 0.2 seconds"),
    ],
)
async def test_one_line_says_why_there_is_no_answer(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: str, answer: Any, complaint: str
) -> None:
    if answer is hangs:
        monkeypatch.setattr(advertised, "DEADLINE_SECONDS", 0.2)
    elsewhere: list[str] = []

    async def answered(request: Request) -> Response:
        if request.url.path == "/elsewhere":
            elsewhere.append(request.headers.get("authorization", ""))
        return await answer(request)

    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    async with served(Starlette(routes=[Route("/{path:path}", answered, methods=["GET", "POST", "DELETE"])])) as url:
        ran = await run("tools", "diff", protocol, f"{url}/?key=secret-of-the-url", "--token-file", token)
    assert (ran.status, ran.out) == (1, "")
    assert any(each in ran.complaint for each in complaint.split("|"))
    assert ran.complaint.startswith(f"counterseal: {url} ")
    assert not any(each in ran.err for each in (TOKEN, "secret-of-the-url", "\x1b"))
    assert elsewhere == []


@pytest.mark.parametrize("protocol", ["--api", "--mcp"])
async def test_a_server_that_is_not_there(run: Run, tmp_path: Path, protocol: str) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    ran = await run("tools", "diff", protocol, "http://127.0.0.1:1", "--token-file", token)
    assert (ran.status, ran.complaint) == (1, "counterseal: http://127.0.0.1:1 cannot be reached (ConnectError)")


async def test_an_mcp_server_that_refuses_the_token(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COUNTERSEAL_MCP_TOKEN", raising=False)
    async with mcp_server(lambda cursor: ([], None)) as url:
        ran = await run("tools", "diff", "--mcp", url)
    assert ran.status == 1
    assert ran.complaint.endswith("refuses the token, or that there is none (HTTP 401)")


async def test_the_api_is_compared_for_the_run_of_the_token(
    run: Run, desk: Office, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with served(desk.app) as url:
        monkeypatch.setenv("COUNTERSEAL_RUN_TOKEN", await token_of(desk, url, "issue_refund", "lookup_orders"))
        ran = await run("tools", "diff", "--api", url)
        only = await run("tools", "diff", "--api", url, "--only", "issue_refund", "--only", "cancel_order", "--json")
        monkeypatch.setenv("COUNTERSEAL_RUN_TOKEN", "crt_wrong")
        refused = await run("tools", "diff", "--api", url)
    assert (ran.status, ran.err) == (0, "")
    assert "advertises 2 tools to the run of this token: as registered." in ran.out
    assert "not judged" in ran.out
    assert "cancel_order" in ran.out
    assert only.status == 1
    assert [(each["kind"], each["tool"]) for each in only.json["differences"]] == [("missing", "cancel_order")]
    assert (refused.status, "refuses the token" in refused.complaint) == (1, True)


async def test_the_api_of_another_release_is_told_field_by_field(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    described = [CATALOG.describe(name).model_dump(mode="json") for name in ("issue_refund", "reinstate_order")]
    described[0]["version"] = "0.9.0"
    described[0]["input_schema"]["properties"]["amount_cents"]["maximum"] = 9
    body = json.dumps({"tools": described})

    async def tools(request: Request) -> Response:
        assert request.headers["authorization"] == f"Bearer {TOKEN}"
        return Response(body, media_type="application/json")

    monkeypatch.setenv("COUNTERSEAL_RUN_TOKEN", TOKEN)
    async with served(Starlette(routes=[Route("/v1/tools", tools)])) as url:
        ran = await run("tools", "diff", "--api", url, "--json")
        body = '{"tools": []}'
        nothing = await run("tools", "diff", "--api", url)
    assert ran.status == 1
    assert [(each["kind"], each["tool"], each["field"]) for each in ran.json["differences"]] == [
        ("internal", "reinstate_order", None),
        ("changed", "issue_refund", "version"),
        ("changed", "issue_refund", "input_schema"),
    ]
    assert ran.json["differences"][2]["places"][0]["path"] == "input_schema.properties.amount_cents.maximum"
    assert (nothing.status, "nothing to compare" in nothing.complaint) == (1, True)


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--api", "http://127.0.0.1:1", "--mcp", "http://127.0.0.1:1"],
        ["--api", "http://127.0.0.1:1"],  # without a token
        ["--mcp", "ftp://127.0.0.1"],
        ["--mcp", "127.0.0.1:1"],
        ["--mcp", "http://user:secret@127.0.0.1:1"],
        ["--mcp", "http://[secret"],
        ["--mcp", "http://127.0.0.1:1", "--only", "no_such_tool"],
        ["--mcp", "http://127.0.0.1:1", "--only", "reinstate_order"],
        ["--mcp", "http://127.0.0.1:1", "--token-file", "no-such-file"],
    ],
)
async def test_what_cannot_be_asked_is_wrong_usage(
    run: Run, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    monkeypatch.delenv("COUNTERSEAL_RUN_TOKEN", raising=False)
    ran = await run("tools", "diff", *arguments)
    assert (ran.status, ran.out) == (2, "")
    assert "secret" not in ran.complaint


@pytest.mark.parametrize("content", ["", " \n", "two words", "a\x1b[31m", "ä", "x" * 20_001])
async def test_a_token_is_one_word(run: Run, tmp_path: Path, content: str) -> None:
    file = tmp_path / "token"
    file.write_text(content)
    ran = await run("tools", "diff", "--mcp", "http://127.0.0.1:1", "--token-file", file)
    assert (ran.status, ran.complaint) == (
        1,
        f"counterseal: {file} holds no token: one word of ASCII characters",
    )
