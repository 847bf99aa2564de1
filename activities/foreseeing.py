"""What would be decided about a call as things are now. Nothing is recorded, taken or sent."""

from collections.abc import Mapping
from typing import NamedTuple

from pydantic import JsonValue

from activities import deciding
from activities.deciding import Proposed
from activities.proposals import read_facts
from activities.services import Services
from ledger.admission import RunState
from policy.model import Policy
from schemas.calls import Call
from schemas.canonical import digest
from schemas.decisions import PolicyDecision
from tools.catalog import Entry
from tools.doings import run_facts
from tools.protocol import Arguments, Foresee, Foreseen, ReadTool, Refusal


class Outlook(NamedTuple):
    """The decision, on what it rests, and what is left of what the call would take from (None: of nothing)."""

    decision: PolicyDecision
    proposed: Proposed | Refusal
    available: int | None


async def foresee_write(
    services: Services, policy: Policy, run: RunState, call: Call, entry: Entry, arguments: Arguments
) -> Outlook:
    """The outlook of a write, by the same facts, counters and kill switches as if it were admitted now. Raises
    SystemUnavailable."""
    proposed = await read_facts(services, call, entry, arguments)
    if isinstance(proposed, Refusal):
        return Outlook(deciding.refused_by_facts(policy, proposed), proposed, None)
    windows = deciding.windows_for(policy.tool(call.tool), proposed)
    claim = proposed.claim
    own = services.ledger.of(call.binding.tenant)
    resource = claim.resource if claim else None
    reads = await own.admissions.preview(call, windows, resource, run.now, proposed.switches)
    available = None if claim is None else claim.available - reads.reserved
    if reads.switched_off is not None:
        return Outlook(deciding.switched_off(policy, reads.switched_off), proposed, available)
    totals, usage = deciding.counted(policy.tool(call.tool), reads)
    did = run_facts(services.catalog, run.doings)
    return Outlook(deciding.evaluate(policy, proposed, did, totals, usage, reads.reserved), proposed, available)


def asking(services: Services, policy: Policy, run: RunState, call: Call) -> Foresee:
    """How a tool asks what would be decided about another tool's call in the place of its own `call`."""

    async def ask(tool: str, arguments: Mapping[str, JsonValue]) -> Foreseen | Refusal:
        entry = services.catalog.get(tool)
        if entry is None or isinstance(entry.tool, ReadTool):
            raise LookupError(f"{tool} is no tool whose decision could be asked for")
        checked = services.catalog.validate_arguments(tool, arguments)
        if isinstance(checked, Refusal):
            return checked
        instead = call.model_copy(
            update={
                "tool": tool,
                "tool_version": entry.manifest.version,
                "arguments": dict(arguments),
                "arguments_digest": digest(dict(arguments)),
            }
        )
        outlook = await foresee_write(services, policy, run, instead, entry, checked)
        if isinstance(outlook.proposed, Refusal):
            return outlook.proposed
        return Foreseen(outlook.decision, outlook.proposed.facts, outlook.available)

    return ask
