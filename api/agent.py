"""The agent's API: runs, tools, calls. Every answer about a call is the reply object, from committed state."""

import contextlib
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, JsonValue, StringConstraints
from temporalio.service import RPCError

from api.authentication import Run, Service, binding_of
from api.calling import call_tool, dry_run
from api.context import Services
from api.edge import json_object
from api.parsing import parse
from api.problems import problem_response, refuse, reply_response
from api.waiting import RESTING
from ledger.records import SETTLED
from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation
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


@router.post("/runs", status_code=201)
async def open_run(request: Request, service: Service, services: Services) -> Response:
    """Open a run: bind tenant, customer and actor, choose its tools, mint its token (shown once)."""
    asked = parse(OpenRun, await json_object(request))
    names = list(dict.fromkeys(asked.tools))
    published = {entry.manifest.name for entry in services.catalog.published()}
    if not published.issuperset(names):
        raise refuse(Code.TOOL_NOT_AVAILABLE)
    run = await services.ledger.principals.open_run(
        service,
        agent_id=asked.agent_id,
        actor_id=asked.actor_id,
        customer_id=asked.customer_id,
        tools=names,
        seconds=asked.expires_in_seconds,
    )
    content = {
        "run_id": run.run_id,
        "run_token": run.token,
        "tools": names,
        "expires_at": run.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
    return JSONResponse(content, 201)


@router.get("/tools")
async def list_tools(run: Run, services: Services) -> Response:
    """The tools that this run may use now."""
    described = [
        services.catalog.describe(entry.manifest.name).model_dump(mode="json")
        for entry in services.catalog.published()
        if entry.manifest.name in run.tools
    ]
    return JSONResponse({"tools": described})


@router.post("/tool-calls")
async def post_tool_call(request: Request, run: Run, services: Services, wait_seconds: Wait = 20) -> Response:
    """Call a tool. Answers when the call has settled or parked, at the latest after `wait_seconds`."""
    asked = parse(CallTool, await json_object(request))
    entry = services.catalog.get(asked.tool)
    if entry is None or not entry.manifest.published or asked.tool not in run.tools:
        raise refuse(Code.TOOL_NOT_AVAILABLE)
    arguments = services.catalog.validate_arguments(asked.tool, asked.arguments)
    if isinstance(arguments, Refusal):
        raise refuse(arguments.code, arguments.explanation)
    request.state.input_validated = True
    if asked.dry_run:
        reply = await dry_run(services, binding_of(run), entry, asked.arguments)
    else:
        reply = await call_tool(services, binding_of(run), entry, arguments, asked.arguments, wait_seconds)
    return reply_response(reply, base=services.public_url)


@router.get("/tool-calls/{request_id}")
async def get_tool_call(request_id: str, run: Run, services: Services, wait_seconds: Wait = 0) -> Response:
    """Progress of a call, to the run's own token or another of the same tenant and agent: the reply object, no more."""
    binding = binding_of(run)
    record = await services.ledger.calls.visible_to(binding.tenant, binding.agent_id, request_id)
    if record is None:
        raise _no_such_call()
    if wait_seconds and not record.settled:
        until = SETTLED if record.status == "pending_approval" else RESTING
        await services.waiters.wait(record.workflow_id, wait_seconds, until)
        record = await services.ledger.calls.read(request_id)
    return Response(record.reply().to_json(), media_type="application/json")


@router.post("/tool-calls/{request_id}/cancel")
async def cancel_tool_call(request_id: str, run: Run, services: Services) -> Response:
    """Withdraw a call while it is parked. 409 with its present state when it no longer is."""
    binding = binding_of(run)
    known = await services.ledger.calls.visible_to(binding.tenant, binding.agent_id, request_id)
    if known is None:
        raise _no_such_call()
    record, withdrawn = await services.ledger.approvals.withdraw(request_id, binding.agent_id)
    reply = record.reply()
    if record.status != "cancelled":
        return problem_response(reply, 409, base=services.public_url)
    if withdrawn:
        # The ledger has it already; without the signal the workflow finds out at its deadline.
        with contextlib.suppress(RPCError):
            await services.temporal.get_workflow_handle(record.workflow_id).signal("withdraw")
    return Response(reply.to_json(), media_type="application/json")


def _no_such_call() -> Exception:
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": "there is no such call"}), status=404)
