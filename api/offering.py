"""Which tools a run is offered now: those it was opened with, in the phase that it has come to."""

from api.context import Context
from api.problems import refuse
from ledger.principals import Principal
from schemas.codes import Code
from schemas.ids import key_hash, workflow_id
from schemas.replies import Explanation
from tools.catalog import Entry
from tools.doings import first_step, in_phase
from tools.protocol import Arguments, WriteArguments


async def offered(services: Context, run: Principal) -> list[Entry]:
    """By name."""
    entries = [entry for entry in services.catalog.all() if entry.offered_to(run.tools)]
    behind = [f"tool:{entry.manifest.name}" for entry in entries if entry.upstream is not None]
    if behind:
        # One whose upstream advertises something else than was reviewed is in quarantine, which is its switch.
        off = {each.name for each in await services.ledger.of(run.tenant).permits.off(run.tenant, behind)}
        entries = [entry for entry in entries if f"tool:{entry.manifest.name}" not in off]
    if all(entry.manifest.phase is None for entry in entries) or run.binding is None:
        return entries
    doings = await services.ledger.of(run.binding.tenant).admissions.doings(run.binding.run_id)
    return [entry for entry in entries if in_phase(entry.manifest.phase, doings)]


async def not_offered(services: Context, run: Principal, entry: Entry | None = None) -> Exception:
    """The refusal of a tool that the run is not offered, with those that it is; and of one (`entry`) whose phase it has
    not come to, the tool that leads there, where the run has that."""
    names = [each.manifest.name for each in await offered(services, run)]
    first = None if entry is None else first_step(entry.manifest.phase)
    said = Explanation(allowed={"tools": ", ".join(names)})
    if first in names:
        said = said.model_copy(update={"action": "use_other_tool", "use_tool": first})
    return refuse(Code.TOOL_NOT_AVAILABLE, said)


async def check_phase(services: Context, run: Principal, entry: Entry, arguments: Arguments) -> None:
    """Raises Refused for a tool whose phase it is not; a call that was made in it is answered all the same, for ever.

    Admission judges it again, under a lock.
    """
    phase, binding = entry.manifest.phase, run.binding
    if phase is None or binding is None:
        return
    ledger = services.ledger.of(binding.tenant)
    if in_phase(phase, await ledger.admissions.doings(binding.run_id)):
        return
    if isinstance(arguments, WriteArguments):
        call_id = workflow_id(binding.tenant, entry.manifest.name, key_hash(arguments.idempotency_key))
        if await ledger.calls.by_workflow_ids([call_id]):
            return
    raise await not_offered(services, run, entry)
