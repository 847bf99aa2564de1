"""`preview`: the decision about a call as it would be now, without recording anything."""

from temporalio import activity

from activities import deciding
from activities.foreseeing import foresee_write
from activities.proposals import build_call
from activities.services import Services, benign
from gateways.protocols import SystemUnavailable
from ledger.admission import RunState
from policy.in_force import PolicyUnusable
from policy.model import Policy
from schemas.calls import Call, PreviewInput
from schemas.codes import Code
from schemas.decisions import PolicyDecision
from schemas.replies import Explanation, Reply, reply_for
from schemas.switches import of_tool
from tools.catalog import Entry
from tools.doings import in_phase, run_facts
from tools.protocol import Arguments, ReadTool, Refusal


class Previewing:
    """Dry runs: no limit is taken, no approval created, nothing is stored and nothing sent."""

    def __init__(self, services: Services) -> None:
        self._services = services

    @activity.defn(name="preview")
    async def preview(self, request: PreviewInput) -> Reply:
        """The reply that the call would get first, marked `dry_run`, with the `decision`."""
        services = self._services
        entry = services.catalog.get(request.tool)
        switches = of_tool(request.tool, entry.manifest.capability_classes) if entry else []
        run = await services.ledger.admissions.run(request.run_id, "", switches)
        if run is None or not run.is_open or entry is None or not entry.offered_to(run.tools):
            raise benign("the run may not use this tool", "TOOL_NOT_AVAILABLE")
        arguments = services.catalog.validate_arguments(request.tool, request.arguments)
        if isinstance(arguments, Refusal):
            raise benign("the arguments do not fit the tool", "INVALID_INPUT")
        call = build_call(run, entry, request, "", "")
        try:
            policy = await services.policies.now()
        except PolicyUnusable as problem:
            return _reply(call.request_id, deciding.undecidable(problem.version), entry.manifest.title)
        try:
            return _reply(call.request_id, *await self._decide(policy, run, call, entry, arguments))
        except SystemUnavailable as problem:
            unreadable = deciding.unreadable(policy, problem.problem)
            return _reply(call.request_id, unreadable, entry.manifest.title)

    async def _decide(
        self, policy: Policy, run: RunState, call: Call, entry: Entry, arguments: Arguments
    ) -> tuple[PolicyDecision, str]:
        """(the decision, the action in plain words)."""
        did = run_facts(self._services.catalog, run.doings)
        if run.switched_off is not None:
            return deciding.switched_off(policy, run.switched_off), entry.manifest.title
        if not in_phase(entry.manifest.phase, run.doings):
            return deciding.out_of_phase(policy, entry.manifest), entry.manifest.title
        if isinstance(entry.tool, ReadTool):
            return deciding.decide_read(policy, call, entry, did), entry.manifest.title
        outlook = await foresee_write(self._services, policy, run, call, entry, arguments)
        if isinstance(outlook.proposed, Refusal):
            return outlook.decision, entry.manifest.title
        return outlook.decision, outlook.proposed.tool.title(outlook.proposed.arguments, outlook.proposed.facts)


def _reply(request_id: str, decision: PolicyDecision, title: str) -> Reply:
    """A refusal says what the call itself would say; otherwise the sentence says what would happen."""
    if decision.verdict == "refuse":
        reply = reply_for(decision.code or Code.INTERNAL_FAILURE, request_id, decision.explanation)
        return reply.model_copy(update={"dry_run": True, "decision": "refuse"})
    waits = decision.verdict == "hold"
    ending = f"would wait for a person ({decision.because})" if waits else "would run at once"
    reply = reply_for(
        Code.PENDING_APPROVAL if waits else Code.OK,
        request_id,
        Explanation(values={"done": title, "expires_at": "its deadline"}, action="none"),
    )
    message = f"Dry run, nothing was done: {title} {ending}."
    return reply.model_copy(update={"message": message, "dry_run": True, "decision": decision.verdict})
