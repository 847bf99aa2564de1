"""From a workflow's raw input to a call that may be decided: who makes it, with what, on what facts."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any, TypeVar, cast

from activities.deciding import ContendedError, Proposed
from activities.services import Services, benign
from activities.tracing import current_trace_id
from gateways.protocols import SystemUnavailable
from ledger.admission import RunState
from schemas.calls import Call, ToolCallInput
from schemas.canonical import digest
from schemas.ids import key_hash, workflow_id
from tools.catalog import Entry
from tools.protocol import Arguments, Refusal, WriteArguments, WriteTool

T = TypeVar("T")

# A fact is read again this often, so spaced, before the call is refused for want of it.
_PAUSES = (0.2, 1.0)
# How often at once the facts are read while others of the same resource are on their way.
_READINGS = 3


def check_call(
    services: Services, run: RunState, request: ToolCallInput, running_as: str
) -> tuple[Call, Entry, Arguments]:
    """The call as it will be decided. Everything that the API checked is checked again: whoever can start a workflow
    gains nothing by it. Raises non-retryable ApplicationErrors."""
    entry = services.catalog.get(request.tool)
    if not run.is_open:
        raise benign("the run is closed", "RunClosed")
    if entry is None or not entry.offered_to(run.tools):
        raise benign("the run may not use this tool", "TOOL_NOT_AVAILABLE")
    arguments = services.catalog.validate_arguments(request.tool, request.arguments)
    if isinstance(arguments, Refusal):
        raise benign("the arguments do not fit the tool", "INVALID_INPUT")
    key = key_hash(idempotency_key(arguments) or request.request_id)
    if running_as != workflow_id(run.binding.tenant, request.tool, key):
        raise benign("the workflow id is not the one of this call", "WrongWorkflowId")
    return build_call(run, entry, request, key, running_as), entry, arguments


def build_call(run: RunState, entry: Entry, request: ToolCallInput, hashed_key: str, running_as: str) -> Call:
    return Call(
        request_id=request.request_id,
        binding=run.binding,
        tool=entry.manifest.name,
        tool_version=entry.manifest.version,
        arguments=request.arguments,
        arguments_digest=digest(request.arguments),
        key_hash=hashed_key,
        workflow_id=running_as,
        trace_id=current_trace_id(),
    )


def idempotency_key(arguments: Arguments) -> str | None:
    """The caller's key; None for a read."""
    return arguments.idempotency_key if isinstance(arguments, WriteArguments) else None


async def read_facts(services: Services, call: Call, entry: Entry, arguments: Arguments) -> Proposed | Refusal:
    """Read the facts from their owners. Raises SystemUnavailable when they cannot be had."""
    tool = cast("WriteTool[Any, Any, Any]", entry.tool)
    with services.outside(entry, call.binding.tenant) as systems:
        facts = await _patiently(entry, lambda: tool.read_facts(arguments, call.binding, systems))
    if isinstance(facts, Refusal):
        return facts
    return Proposed(call, entry, tool, cast(WriteArguments, arguments), facts)


Decide = Callable[[Proposed | Refusal, tuple[str, ...] | None], Awaitable[T]]


async def on_settled_facts(
    services: Services, call: Call, entry: Entry, arguments: Arguments, facts_since: datetime, decide: Decide[T]
) -> T:
    """Read the facts and decide on them.

    `decide` takes what was read, and the calls whose effects that contains though the ledger still holds what they
    took; None where nobody looked. `facts_since` is the database's clock from before this. Raises SystemUnavailable,
    and ContendedError as `decide` does when it cannot be told now what the facts contain.
    """
    for _ in range(_READINGS):
        proposed = await read_facts(services, call, entry, arguments)
        try:
            return await decide(proposed, None)
        except ContendedError:
            counted = await _counted_in(services, proposed, facts_since)
        if counted is not None:
            return await decide(proposed, counted)
    raise ContendedError


async def _counted_in(
    services: Services, proposed: Proposed | Refusal, facts_since: datetime
) -> tuple[str, ...] | None:
    if isinstance(proposed, Refusal) or proposed.claim is None:
        return ()
    tenant = proposed.call.binding.tenant
    held = await services.here.admissions.in_flight(proposed.call, proposed.claim.resource, facts_since)
    if not held:
        return ()
    with services.outside(proposed.entry, tenant) as systems:
        seen = await _patiently(proposed.entry, lambda: proposed.tool.in_facts(held.keys(), proposed.facts, systems))
    return None if seen is None else tuple(held[each] for each in seen)


async def _patiently(entry: Entry, read: Callable[[], Awaitable[T]]) -> T:
    """A read, repeated a little where the tool's manifest says that it may be. Raises the last SystemUnavailable."""
    for pause in _PAUSES if entry.manifest.repeatable else ():
        try:
            return await read()
        except SystemUnavailable:
            await asyncio.sleep(pause)
    return await read()
