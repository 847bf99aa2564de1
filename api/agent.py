"""The agent's API: runs, tools, calls. Every answer about a call is the reply object, from committed state."""

import contextlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, JsonValue, StringConstraints
from temporalio.service import RPCError

from api.authentication import Run, Service, binding_of
from api.calling import call_tool, dry_run
from api.context import Context, Services
from api.edge import json_object
from api.offering import check_phase, not_offered, offered
from api.openapi import BODY, ID, PROBLEM, QUERY, answer, problems, takes
from api.parsing import parse
from api.problems import problem_response, refuse, reply_response
from api.waiting import RESTING
from ledger.principals import Principal
from ledger.records import SETTLED, CallRecord
from schemas.base import Model
from schemas.codes import REGISTRY, Code
from schemas.ids import is_request_id, is_run_id
from schemas.replies import Explanation, Problem, Reply
from schemas.tools import ToolDescription
from tools.protocol import Refusal

router = APIRouter(prefix="/v1")

_Name = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$")]
Wait = Annotated[int, Query(ge=0, le=60)]


class OpenRun(Model):
    """Body of `POST /v1/runs`."""

    agent_id: _Name
    actor_id: _Name
    customer_id: _Name
    tools: Annotated[list[_Name], Field(min_length=1, max_length=64)]
    expires_in_seconds: Annotated[int, Field(ge=60, le=86_400)] = 3600


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
    run = await services.ledger.principals.open_run(
        service,
        agent_id=asked.agent_id,
        actor_id=asked.actor_id,
        customer_id=asked.customer_id,
        tools=names,
        seconds=asked.expires_in_seconds,
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
    entry = services.catalog.get(asked.tool)
    if entry is None or not entry.offered_to(run.tools):
        raise await not_offered(services, run)
    arguments = services.catalog.validate_arguments(asked.tool, asked.arguments)
    if isinstance(arguments, Refusal):
        raise refuse(arguments.code, arguments.explanation)
    request.state.input_validated = True
    await check_phase(services, run, entry, arguments)
    if asked.dry_run:
        reply = await dry_run(services, binding_of(run), entry, asked.arguments)
    else:
        reply = await call_tool(services, binding_of(run), entry, arguments, asked.arguments, wait_seconds)
    return reply_response(reply, base=services.public_url)


@router.get(
    "/tool-calls/{request_id}",
    responses={200: answer(Reply, "The call, whatever its status"), **problems(invalid=(*ID, *QUERY))},
    openapi_extra=takes("run"),
)
async def get_tool_call(request_id: str, run: Run, services: Services, wait_seconds: Wait = 0) -> Response:
    """Progress of a call, to the run's own token or another of the same tenant and agent: the reply object, no more."""
    record = await _visible(services, run, request_id)
    if wait_seconds and not record.settled:
        until = SETTLED if record.status == "pending_approval" else RESTING
        await services.waiters.wait(record.workflow_id, wait_seconds, until)
        record = await services.ledger.of(record.tenant).calls.read(request_id)
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
    known = await _visible(services, run, request_id)
    record, withdrawn = await services.ledger.of(known.tenant).approvals.withdraw(known.request_id, known.agent_id)
    reply = record.reply()
    if record.status != "cancelled":
        return problem_response(reply, 409, base=services.public_url)
    if withdrawn:
        # The ledger has it already; without the signal the workflow finds out at its deadline.
        with contextlib.suppress(RPCError):
            await services.temporal.get_workflow_handle(record.workflow_id).signal("withdraw")
    return Response(reply.to_json(), media_type="application/json")


async def _visible(services: Context, run: Principal, request_id: str) -> CallRecord:
    """The call, if this run may see it. Raises Refused: whatever the reason, the same 404."""
    binding = binding_of(run)
    record = None
    if is_request_id(request_id):
        record = await services.ledger.of(binding.tenant).calls.visible_to(binding.tenant, binding.agent_id, request_id)
    if record is None:
        raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": "there is no such call"}), status=404)
    return record
