"""`admit`: from a proposed call to a decided one, and for free calls to an executed one."""

from datetime import datetime, timedelta
from typing import Any

from opentelemetry.trace import Span
from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities import deciding, shadowing
from activities.deciding import Proposed
from activities.diagnosing import Account, followed_step
from activities.effects import Effects
from activities.foreseeing import asking
from activities.proposals import check_call, on_settled_facts
from activities.services import Services, benign, workflow_id
from activities.tracing import describe, describe_outcome, describe_tool, step
from gateways.protocols import SystemUnavailable
from gateways.trail import Trail
from ledger.admission import Admitted, AlreadyAdmitted, Reads, RequestIdTaken, RunRevoked, RunState
from ledger.records import CallRecord
from policy.in_force import PolicyUnusable
from policy.model import Policy
from schemas.calls import Call, Progress, RunFacts, ToolCallInput
from schemas.codes import Code
from schemas.switches import of_tool
from tools.catalog import Entry
from tools.doings import in_phase, run_facts
from tools.protocol import Arguments, ForeseeingTool, ReadTool, Refusal
from tools.results import ResultTooLargeError, capped

# Before a call is decided again whose facts do not say yet which calls before it they contain.
_PAUSES = [timedelta(seconds=s) for s in (1, 2, 4, 8, 15)]


class Admission:
    """Admits calls, in one database transaction each."""

    def __init__(self, services: Services, effects: Effects) -> None:
        self._services = services
        self._effects = effects

    @activity.defn(name="admit")
    async def admit(self, request: ToolCallInput) -> Progress:
        """Where the call stands after it was decided. Repeating it is safe: a known call is taken up where it is.

        Raises non-retryable ApplicationErrors for a call that no run may make; nothing is recorded of those.
        """
        async with followed_step(self._services, "admit", request.request_id) as account:
            return await self._admit(request, account)

    async def _admit(self, request: ToolCallInput, account: Account) -> Progress:
        with step("counterseal.admit", request.request_id) as span:
            # Whose run it is says the tenant, as with a token.
            entry = self._services.catalog.get(request.tool)
            switches = of_tool(request.tool, entry.manifest.capability_classes) if entry else []
            run = await self._services.ledger.admissions.run(request.run_id, workflow_id(), switches)
            if run is None:
                raise benign("there is no such run", "UnknownRun")
            if run.existing is not None:
                return await self._known(request, run.existing, span)
            account.made_by(run.binding, request.tool)
            call, entry, arguments = check_call(self._services, run, request, workflow_id())
            account.trail.mark("input_validated")
            describe_tool(span, call, entry.manifest)
            self._services.reached("intent.before")
            if self._services.systems is None:
                return self._elsewhere(request, call)
            try:
                record, permit_until = await self._new(run, call, entry, arguments, account.trail)
            except AlreadyAdmitted as known:
                return await self._known(request, known.request_id, span)
            except RequestIdTaken:
                raise benign("another call has this request id", "RequestIdTaken") from None
            except RunRevoked:
                raise benign("the run is closed", "RunClosed") from None
            if record.details.effect is not None:
                self._services.reached("intent.after")
                account.trail.mark("authorised")
                record = await self._effects.send(record, record.details.effect, account.trail, permit_until)
            describe_outcome(span, record)
            await account.ended(record)
            self._services.reached("completion.before")
            return self._effects.resume(self._services.moved(record))

    def _elsewhere(self, request: ToolCallInput, call: Call) -> Progress:
        """To be admitted where the credentials are, by which its facts are read."""
        return Progress(
            request_id=request.request_id,
            next="admit",
            status="in_progress",
            code=Code.IN_PROGRESS,
            queue=self._services.effect_queue(call.tool),
        )

    async def _known(self, request: ToolCallInput, request_id: str, span: Span) -> Progress:
        """A call that is taken up where it is, or one that was asked for again under its key."""
        record = await self._services.here.calls.read(request_id)
        entry = self._services.catalog.get(record.tool)
        describe(span, record, entry and entry.manifest, deduplicated=request.request_id != request_id)
        return self._effects.resume(record)

    async def _new(
        self, run: RunState, call: Call, entry: Entry, arguments: Arguments, trail: Trail
    ) -> tuple[CallRecord, float]:
        """The call as it was recorded, and until when its effect may begin."""
        record = self._services.here.admissions.record
        did = run_facts(self._services.catalog, run.doings)
        try:
            policy = await self._services.policies.now()
        except PolicyUnusable as problem:
            trail.problem = "policy_unusable"
            decision = deciding.undecidable(problem.version)
            return await record(call, deciding.refused(call, decision, did), run.now), 0.0
        if run.switched_off is not None:
            decision = deciding.switched_off(policy, run.switched_off)
            return await record(call, deciding.refused(call, decision, did), run.now), 0.0
        if not in_phase(entry.manifest.phase, run.doings):
            refused = deciding.refused(call, deciding.out_of_phase(policy, entry.manifest), did)
            return await record(call, refused, run.now), 0.0
        try:
            if isinstance(entry.tool, ReadTool):
                admitted = await self._read(policy, run, call, entry, entry.tool, arguments, did, trail)
                return await record(call, admitted, run.now), 0.0
            return await self._write(policy, run.now, call, entry, arguments, did)
        except SystemUnavailable as problem:
            trail.problem = problem.problem
            admitted = deciding.refused(call, deciding.unreadable(policy, problem.problem), did)
            return await record(call, admitted, run.now), 0.0

    async def _write(
        self, policy: Policy, facts_since: datetime, call: Call, entry: Entry, arguments: Arguments, did: RunFacts
    ) -> tuple[CallRecord, float]:
        async def decide(proposed: Proposed | Refusal, counted: tuple[str, ...] | None) -> tuple[CallRecord, float]:
            return await self._decide(policy, call, proposed, did, facts_since, counted)

        try:
            return await on_settled_facts(self._services, call, entry, arguments, facts_since, decide)
        except deciding.ContendedError:
            attempt = activity.info().attempt
            if attempt > len(_PAUSES):
                raise SystemUnavailable(entry.manifest.name, "facts_unsettled") from None
            raise ApplicationError(
                "other calls for the same are on their way",
                type="Contended",
                next_retry_delay=_PAUSES[attempt - 1],
                category=ApplicationErrorCategory.BENIGN,
            ) from None

    async def _decide(
        self,
        policy: Policy,
        call: Call,
        proposed: Proposed | Refusal,
        did: RunFacts,
        facts_since: datetime,
        counted: tuple[str, ...] | None,
    ) -> tuple[CallRecord, float]:
        """Decide in one transaction. Raises ContendedError while it is not known what the facts contain."""
        services, permit_until = self._services, 0.0
        if isinstance(proposed, Refusal):
            decision = deciding.refused_by_facts(policy, proposed)
            admitted = deciding.refused(call, decision, did)
            return await services.here.admissions.record(call, admitted, facts_since), 0.0
        windows = deciding.windows_for(policy.tool(call.tool), proposed)
        candidate = services.shadow

        def decide(reads: Reads) -> Admitted:
            nonlocal permit_until
            permit_until = reads.permit_until
            if counted is None:
                deciding.contend(proposed, reads)
            shadow = shadowing.said(candidate, proposed, did, reads)
            return deciding.admit(policy, proposed, did, windows, reads, inline=services.inline, shadow=shadow)

        record = await services.here.admissions.admit(
            call,
            windows,
            proposed.claim.resource if proposed.claim else None,
            facts_since,
            decide,
            proposed.switches,
            counted or (),
            beside=shadowing.windows_beside(candidate, proposed),
            phased=proposed.entry.manifest.phase is not None,
        )
        return record, permit_until

    async def _read(
        self,
        policy: Policy,
        run: RunState,
        call: Call,
        entry: Entry,
        tool: ReadTool[Any, Any],
        arguments: Arguments,
        did: RunFacts,
        trail: Trail,
    ) -> Admitted:
        decision = deciding.decide_read(policy, call, entry, did)
        shadow = shadowing.said_of_read(self._services.shadow, call, entry, did)
        if decision.verdict != "free":
            return deciding.refused(call, decision, did, shadow=shadow)
        trail.mark("authorised")
        with trail.during("read"), self._services.outside(entry, call.binding.tenant) as systems:
            if isinstance(tool, ForeseeingTool):
                found = await tool.foresee(arguments, call.binding, systems, asking(self._services, policy, run, call))
            else:
                found = await tool.read(arguments, call.binding, systems)
        if isinstance(found, Refusal):
            return deciding.refused(call, deciding.refused_by_facts(policy, found), did, shadow=shadow)
        try:
            result = capped(found.model_dump(mode="json", exclude_none=True), entry.manifest)
        except ResultTooLargeError:
            raise SystemUnavailable(entry.manifest.name, "result_too_large") from None
        return deciding.answered(
            call,
            decision,
            did,
            result,
            code=Code.NO_RESULTS if tool.is_empty(found) else Code.OK,
            done=tool.done(arguments, found),
            shadow=shadow,
        )
