"""`execute` and `inspect`: one attempt, and looking up what became of it. Nothing here ever sends twice."""

from datetime import datetime
from typing import Any

from temporalio import activity

from activities import deciding
from activities.decisions import Decisions
from activities.diagnosing import Account, followed_step
from activities.outcomes import after_attempt, after_inspection
from activities.proposals import read_facts
from activities.services import Services
from activities.tracing import describe_outcome, describe_tool, step, waited
from gateways.protocols import SystemUnavailable
from gateways.trail import Trail
from ledger.admission import Reads
from ledger.records import CallRecord, Step
from schemas.calls import CallRef, ExecuteRequest, Next, Progress
from schemas.decisions import HumanDecision
from schemas.effects import Effect
from tools.catalog import Entry
from tools.protocol import Refusal, WriteArguments, WriteTool


class Effects:
    """Sends effects and looks them up."""

    def __init__(self, services: Services, decisions: Decisions) -> None:
        self._services = services
        self._decisions = decisions

    @activity.defn(name="execute")
    async def execute(self, request: ExecuteRequest) -> Progress:
        """Send the effect of a decided call, once. A second run finds the intent and never sends.

        Progress: `settled`, `inspect` (outcome unknown), `hold` (what was delivered is no valid decision), or `execute`
        (facts could not be read; nothing was sent).
        """
        async with followed_step(self._services, "execute", request.request_id) as account:
            return await self._execute(request, account)

    async def _execute(self, request: ExecuteRequest, account: Account) -> Progress:
        with step("counterseal.execute", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            entry, _ = self._tool(record)
            call = record.details.call
            describe_tool(span, call.binding, entry.manifest, call.key_hash)
            approved: HumanDecision | None = None
            if record.verdict == "hold" and record.intended_at is None and not record.settled:
                record, approved = await self._decisions.approved(record, request.approval_id, request.token)
                if approved is None:
                    await account.ended(record)
                    return self.resume(record)
                waited("approval.wait", record, record.created_at, approved.decided_at)
            describe_outcome(span, record)
            if record.settled or record.intended_at is not None:
                return self.resume(record)
            try:
                record, changed = await self._intend(record, entry, approved)
            except SystemUnavailable as problem:
                account.trail.problem = problem.problem
                await account.keep(record, failure=problem)
                return self.resume(record)
            self._services.moved(record)
            if not changed:
                return self.resume(record)
            if record.details.effect is not None and not record.settled:
                account.trail.mark("authorised")
                record = await self.send(record, record.details.effect, account.trail)
                describe_outcome(span, record)
            await account.ended(record)
            return self.resume(record)

    @activity.defn(name="inspect")
    async def inspect(self, request: CallRef) -> Progress:
        """Look the effect up by its operation id and record what was found."""
        async with followed_step(self._services, "inspect", request.request_id) as account:
            return await self._inspect(request, account)

    async def _inspect(self, request: CallRef, account: Account) -> Progress:
        with step("counterseal.inspect", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            effect = record.details.effect
            if record.settled or effect is None:
                return self.resume(record)
            entry, tool = self._tool(record)
            describe_tool(span, record.details.call.binding, entry.manifest, record.details.call.key_hash)
            # The intent was committed, so this was passed before anything was sent.
            account.trail.mark("authorised")
            with account.trail.during("inspection"):
                found = await tool.inspect(effect, self._services.systems)
            account.trail.conclude(found)
            done = tool.done(self._arguments(record), found.result) if found.kind == "confirmed" else ""

            def decide(current: CallRecord, now: datetime) -> Step | None:
                if current.settled:
                    return None
                return after_inspection(current, effect, found, done=done, operation=entry.manifest.operation)

            record, _ = await self._services.here.calls.advance(request.request_id, decide)
            describe_outcome(span, record)
            self._services.moved(record)
            await account.keep(record)
            return self.resume(record)

    async def send(self, record: CallRecord, effect: Effect, trail: Trail) -> CallRecord:
        """Send an effect whose intent this very call just committed, and record the outcome."""
        entry, tool = self._tool(record)
        with trail.during("effect"):
            outcome = await tool.execute(effect, self._services.systems)
        trail.conclude(outcome)
        done = tool.done(self._arguments(record), outcome.result) if outcome.kind == "confirmed" else ""

        def decide(current: CallRecord, now: datetime) -> Step | None:
            if current.settled:
                return None
            return after_attempt(effect, outcome, done=done, operation=entry.manifest.operation)

        record, _ = await self._services.here.calls.advance(record.request_id, decide)
        return self._services.moved(record)

    def resume(self, record: CallRecord) -> Progress:
        """What comes next for a call that stands where `record` says; the one place that knows."""
        return record.progress(
            _next(record), queue=self._services.effect_queue(record.tool), expires_at=_deadline(record)
        )

    async def _intend(
        self, record: CallRecord, entry: Entry, approved: HumanDecision | None
    ) -> tuple[CallRecord, bool]:
        """Read the facts again, ask the policy again, and commit the intent or the refusal."""
        services, call = self._services, record.details.call
        run = await services.here.admissions.run(call.binding.run_id, call.workflow_id)
        facts_since = run.now if run else record.created_at
        proposed = await read_facts(services, call, entry, self._arguments(record))

        def decide(current: CallRecord, reads: Reads) -> Step | None:
            if current.settled or current.intended_at is not None:
                return None
            if reads.revoked:
                return deciding.voided(current.approval_id, "the run was revoked", {})
            if isinstance(proposed, Refusal):
                return deciding.voided(current.approval_id, "the record can no longer be found", {})
            approved_digest = approved.action_digest if approved else None
            because = deciding.still_allowed(
                services.policy, proposed, current.details, approved_digest, reads.reserved
            )
            if because is not None:
                return deciding.voided(current.approval_id, because, proposed.facts.model_dump(mode="json"))
            return deciding.intended(services.policy, proposed, reads.now)

        claim = None if isinstance(proposed, Refusal) else proposed.claim
        return await services.here.admissions.intend(call, claim.resource if claim else None, facts_since, decide)

    def _tool(self, record: CallRecord) -> tuple[Entry, WriteTool[Any, Any, Any]]:
        entry = self._services.catalog.get(record.tool)
        if entry is None or not isinstance(entry.tool, WriteTool):
            raise LookupError(f"this worker does not have the tool {record.tool}")
        return entry, entry.tool

    def _arguments(self, record: CallRecord) -> WriteArguments:
        arguments = self._services.catalog.validate_arguments(record.tool, record.details.call.arguments)
        if not isinstance(arguments, WriteArguments):
            raise LookupError(f"the recorded arguments no longer fit {record.tool}")
        return arguments


def _next(record: CallRecord) -> Next:
    if record.settled:
        return "settled"
    if record.status == "pending_approval":
        return "hold"
    return "execute" if record.intended_at is None else "inspect"


def _deadline(record: CallRecord) -> datetime | None:
    said = record.details.explanation
    if record.status != "pending_approval" or said is None or said.expires_at is None:
        return None
    return datetime.fromisoformat(said.expires_at)
