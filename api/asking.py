"""What an agent may ask, whatever it asks through: a call checked and made, its progress, its withdrawal.

HTTP (`api/agent.py`) and the Model Context Protocol (`api/mcp/`) run this very code, with the same refusals.
"""

import contextlib
from dataclasses import dataclass

from opentelemetry import trace
from pydantic import JsonValue
from temporalio.service import RPCError

from activities.tracing import describe_request
from api.authentication import binding_of
from api.calling import call_tool, dry_run, try_again
from api.context import Context
from api.measuring import asking
from api.offering import check_phase, not_offered
from api.problems import Refused, refuse
from api.room import NoRoomError
from api.waiting import RESTING
from ledger.principals import Principal
from ledger.records import SETTLED, CallRecord
from schemas.codes import Code
from schemas.ids import is_request_id
from schemas.replies import Explanation, Reply
from tools.catalog import Entry
from tools.protocol import Arguments, Refusal

LONGEST_WAIT = 60
"""Seconds; a wait for a call ends by then."""


@dataclass(frozen=True, slots=True)
class Asked:
    """A call of a tool that its run has, with arguments that fit."""

    entry: Entry
    arguments: Arguments
    raw: dict[str, JsonValue]


async def checked(services: Context, run: Principal, tool: str, raw: dict[str, JsonValue]) -> Asked:
    """Raises Refused: TOOL_NOT_AVAILABLE, INVALID_INPUT."""
    entry = services.catalog.get(tool)
    if entry is None or not entry.offered_to(run.tools):
        raise await not_offered(services, run)
    arguments = services.catalog.validate_arguments(tool, raw)
    if isinstance(arguments, Refusal):
        raise refuse(arguments.code, arguments.explanation)
    return Asked(entry, arguments, raw)


async def ask(services: Context, run: Principal, asked: Asked, wait_seconds: float, *, dry: bool = False) -> Reply:
    """The call's state once it has settled or parked, at the latest after `wait_seconds`; `dry`: what it would come to.

    Raises Refused: TOOL_NOT_AVAILABLE (not its phase), IDEMPOTENCY_CONFLICT; TEMPORARY_FAILURE, also where this process
    has no room for one more.
    """
    with asking(asked.entry.manifest.name) as measured:
        await check_phase(services, run, asked.entry, asked.arguments)
        try:
            async with services.room.taken(run.tenant):
                return measured.answered(await _reply(services, run, asked, wait_seconds, dry=dry))
        except NoRoomError:
            raise try_again() from None


async def _reply(services: Context, run: Principal, asked: Asked, wait_seconds: float, *, dry: bool) -> Reply:
    binding = binding_of(run)
    if dry:
        return await dry_run(services, binding, asked.entry, asked.raw)
    return await call_tool(services, binding, asked.entry, asked.arguments, asked.raw, wait_seconds)


async def progress(services: Context, run: Principal, request_id: str, wait_seconds: float = 0) -> CallRecord:
    """The call as it stands, at the latest after `wait_seconds`: one that is parked, once it has settled; another, once
    it rests. Raises Refused."""
    record = await visible(services, run, request_id)
    if wait_seconds and not record.settled:
        until = SETTLED if record.status == "pending_approval" else RESTING
        await services.waiters.wait(record.workflow_id, wait_seconds, until)
        record = await services.ledger.of(record.tenant).calls.read(request_id)
    return record


async def withdraw(services: Context, run: Principal, request_id: str) -> CallRecord:
    """The call, `cancelled` if it was parked until now or was withdrawn before. Raises Refused, for a call for another
    customer too: a run may read about those of its agent, and acts for its own customer alone."""
    known = await visible(services, run, request_id)
    if known.details.call.binding.customer_id != binding_of(run).customer_id:
        raise _no_such_call()
    record, withdrawn = await services.ledger.of(known.tenant).approvals.withdraw(known.request_id, known.agent_id)
    if withdrawn:
        # The ledger has it already; without the signal the workflow finds out at its deadline.
        with contextlib.suppress(RPCError):
            await services.temporal.get_workflow_handle(record.workflow_id).signal("withdraw")
    return record


async def visible(services: Context, run: Principal, request_id: str) -> CallRecord:
    """The call, if this run may see it. Raises Refused: whatever the reason, the same 404."""
    binding = binding_of(run)
    record = None
    if is_request_id(request_id):
        record = await services.ledger.of(binding.tenant).calls.visible_to(binding.tenant, binding.agent_id, request_id)
    if record is None:
        raise _no_such_call()
    describe_request(trace.get_current_span(), record.request_id)
    return record


def _no_such_call() -> Refused:
    return refuse(Code.INVALID_INPUT, Explanation(values={"problem": "there is no such call"}), status=404)
