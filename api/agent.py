"""The agent's API: runs, tools, calls. Every answer about a call is the reply object, from committed state."""

from typing import Annotated, get_args

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, JsonValue, StringConstraints

from api.asking import LONGEST_WAIT, ask, checked, progress, withdraw
from api.authentication import Run, Service, Surface, resource_of
from api.context import Services
from api.edge import json_object
from api.offering import offered
from api.openapi import BODY, ID, PROBLEM, QUERY, answer, problems, takes
from api.parsing import parse
from api.problems import problem_response, refuse, reply_response
from schemas.base import Model
from schemas.codes import REGISTRY, Code
from schemas.ids import is_run_id
from schemas.replies import Explanation, Problem, Reply
from schemas.tools import ToolDescription

router = APIRouter(prefix="/v1")

_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$")]
Wait = Annotated[int, Query(ge=0, le=LONGEST_WAIT)]


class OpenRun(Model):
    """Body of `POST /v1/runs`."""

    agent_id: _Name
    actor_id: _Name
    customer_id: _Name
    tools: Annotated[list[_Name], Field(min_length=1, max_length=64)]
    expires_in_seconds: Annotated[int, Field(ge=60, le=86_400)] = 3600
    resource: Annotated[str, StringConstraints(max_length=2048)] | None = None
    """The one interface that the token is to be good at (RFC 8707): this service's URL with `/v1` or `/mcp`."""


class CallTool(Model):
    """Body of `POST /v1/tool-calls`."""

    tool: Annotated[str, StringConstraints(max_length=64)]
    arguments: dict[str, JsonValue]
    dry_run: bool = False


class RunOpened(Model):
    """Answer of `POST /v1/runs`. The token is shown this once."""

    run_id: str
    run_token: str
    tools: list[str]
    expires_at: str


class RunRevoked(Model):
    """Answer of `POST /v1/runs/{run_id}/revoke`."""

    run_id: str
    revoked_at: str


class Tools(Model):
    """Answer of `GET /v1/tools`."""

    tools: list[ToolDescription]


_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_EVERY_REFUSAL = [code for code, spec in REGISTRY.items() if spec.http_status >= 400]


@router.post(
    "/runs",
    status_code=201,
    responses={
        201: answer(RunOpened, "The run is open"),
        **problems(Code.TOOL_NOT_AVAILABLE, invalid=BODY),
    },
    openapi_extra=takes("service", OpenRun),
)
async def open_run(request: Request, service: Service, services: Services) -> Response:
    """Open a run: bind tenant, customer and actor, choose its tools, mint its token (shown once)."""
    asked = parse(OpenRun, await json_object(request))
    names = list(dict.fromkeys(asked.tools))
    published = {entry.manifest.name for entry in services.catalog.published()}
    if not published.issuperset(names):
        raise refuse(Code.TOOL_NOT_AVAILABLE, Explanation(allowed={"tools": ", ".join(sorted(published))}))
    resources = [resource_of(services, surface) for surface in get_args(Surface)]
    if asked.resource is not None and asked.resource not in resources:
        problem = f"resource must be {' or '.join(resources)}, or left out"
        raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": problem}, invalid_fields=("resource",)))
    run = await services.ledger.principals.open_run(
        service,
        agent_id=asked.agent_id,
        actor_id=asked.actor_id,
        customer_id=asked.customer_id,
        tools=names,
        seconds=asked.expires_in_seconds,
        resource=asked.resource,
    )
    opened = RunOpened(
        run_id=run.run_id,
        run_token=run.token,
        tools=names,
        expires_at=run.expires_at.strftime(_INSTANT),
    )
    return JSONResponse(opened.model_dump(), 201)


@router.post(
    "/runs/{run_id}/revoke",
    responses={200: answer(RunRevoked, "The run has ended"), **problems(invalid=ID)},
    openapi_extra=takes("service"),
)
async def revoke_run(run_id: str, service: Service, services: Services) -> Response:
    """End a run that this service opened: its token opens nothing from the next request on, and what it asked a person
    for is not done. Repeating it changes nothing."""
    revoked_at = None
    if is_run_id(run_id):
        revoked_at = await services.ledger.principals.revoke_run(service, run_id)
    if revoked_at is None:
        raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": "there is no such run"}), status=404)
    return JSONResponse(RunRevoked(run_id=run_id, revoked_at=revoked_at.strftime(_INSTANT)).model_dump())


@router.get("/tools", responses={200: answer(Tools, "The tools"), **problems()}, openapi_extra=takes("run"))
async def list_tools(run: Run, services: Services) -> Response:
    """The tools that this run may use now."""
    described = [entry.description for entry in await offered(services, run)]
    return JSONResponse(Tools(tools=described).model_dump(mode="json"))


@router.post(
    "/tool-calls",
    responses={
        200: answer(Reply, "Executed, or a dry run"),
        202: answer(Reply, "Waiting for a person, in progress, or the outcome is not known yet"),
        **problems(*_EVERY_REFUSAL, invalid=(400, 413, 415)),
    },
    openapi_extra=takes("run", CallTool),
)
async def post_tool_call(request: Request, run: Run, services: Services, wait_seconds: Wait = 20) -> Response:
    """Call a tool. Answers when the call has settled or parked, at the latest after `wait_seconds`."""
    asked = parse(CallTool, await json_object(request))
    call = await checked(services, run, asked.tool, asked.arguments)
    request.state.input_validated = True
    reply = await ask(services, run, call, wait_seconds, dry=asked.dry_run)
    return reply_response(reply, base=services.public_url)


@router.get(
    "/tool-calls/{request_id}",
    responses={200: answer(Reply, "The call, whatever its status"), **problems(invalid=(*ID, *QUERY))},
    openapi_extra=takes("run"),
)
async def get_tool_call(request_id: str, run: Run, services: Services, wait_seconds: Wait = 0) -> Response:
    """Progress of a call, to the run's own token or another of the same tenant and agent: the reply object, no more."""
    record = await progress(services, run, request_id, wait_seconds)
    return Response(record.reply().to_json(), media_type="application/json")


@router.post(
    "/tool-calls/{request_id}/cancel",
    responses={
        200: answer(Reply, "Withdrawn"),
        **problems(invalid=ID),
        409: answer(Problem, "It no longer waits for a person: its present state", PROBLEM),
    },
    openapi_extra=takes("run"),
)
async def cancel_tool_call(request_id: str, run: Run, services: Services) -> Response:
    """Withdraw a call while it is parked. 409 with its present state when it no longer is."""
    record = await withdraw(services, run, request_id)
    reply = record.reply()
    if record.status != "cancelled":
        return problem_response(reply, 409, base=services.public_url)
    return Response(reply.to_json(), media_type="application/json")
