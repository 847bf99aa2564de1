"""`execute`, `inspect` and `resend`: one attempt, looking up what became of it, and the same again under the same key.

Only who has just committed an intent sends, and sends that one once.
"""

from datetime import datetime
from typing import Any

from temporalio import activity

from activities import deciding
from activities.decisions import Decisions
from activities.diagnosing import Account, followed_step
from activities.outcomes import after_attempt, after_inspection, after_recheck, needs_review
from activities.patience import next_look, verdict_on
from activities.proposals import read_facts
from activities.services import Services
from activities.tracing import describe_outcome, describe_tool, step, waited
from gateways.protocols import SystemUnavailable
from gateways.trail import Trail
from ledger.admission import Reads
from ledger.records import CallRecord, Step
from schemas.calls import CallRef, ExecuteRequest, Next, Progress
from schemas.decisions import HumanDecision
from schemas.effects import Absent, Effect, Inspection
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
            self._services.reached("intent.before")
            try:
                record, changed = await self._intend(record, entry, approved)
            except SystemUnavailable as problem:
                account.trail.problem = problem.problem
                await account.keep(record, failure=problem)
                return self.resume(record)
            self._services.moved(record)
            if not changed:
                return self.resume(record)
            self._services.reached("intent.after")
            if record.details.effect is not None and not record.settled:
                account.trail.mark("authorised")
                record = await self.send(record, record.details.effect, account.trail)
                describe_outcome(span, record)
            await account.ended(record)
            self._services.reached("completion.before")
            return self.resume(record)

    @activity.defn(name="inspect")
    async def inspect(self, request: CallRef) -> Progress:
        """Look the effect up by its operation id and record what was found.

        Progress: `settled`, `inspect` again after `after_seconds`, or `resend` (it is absent, and may be sent again).
        """
        async with followed_step(self._services, "inspect", request.request_id) as account:
            return await self._inspect(request, account)

    @activity.defn(name="resend")
    async def resend(self, request: CallRef) -> Progress:
        """Look once more, and when the effect is still absent send it again under the key it was first sent with.

        Progress: `settled`, or `inspect`.
        """
        async with followed_step(self._services, "resend", request.request_id) as account:
            return await self._resend(request, account)

    @activity.defn(name="recheck")
    async def recheck(self, request: CallRef) -> Progress:
        """Look again at an effect that was settled: its system may have undone it since.

        Of a call whose outcome is still unknown this is one more look. Progress: `settled` or `inspect`.
        """
        async with followed_step(self._services, "recheck", request.request_id) as account:
            return await self._inspect(request, account, again=True)

    async def _inspect(self, request: CallRef, account: Account, *, again: bool = False) -> Progress:
        with step("counterseal.inspect", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            effect = record.details.effect
            if effect is None or (record.settled and not again):
                return self.resume(record)
            entry, tool = self._tool(record)
            describe_tool(span, record.details.call.binding, entry.manifest, record.details.call.key_hash)
            found = await self._look(record, effect, account)
            done = tool.done(self._arguments(record), found.result) if found.kind == "confirmed" else ""

            def decide(current: CallRecord, now: datetime) -> Step | None:
                sent = current.details.effect or effect
                if current.settled:
                    return after_recheck(current, sent, found, done=done, now=now) if again else None
                return after_inspection(
                    current,
                    sent,
                    found,
                    self._services.patience,
                    may_resend_until=self._may_resend_until(entry, sent),
                    now=now,
                    done=done,
                    operation=entry.manifest.operation,
                    watched=tool.undone_late,
                )

            self._services.reached("record.before")
            record, _ = await self._services.here.calls.advance(request.request_id, decide)
            describe_outcome(span, record)
            self._services.moved(record)
            self._services.reached("record.after")
            await (account.ended(record) if again else account.keep(record))
            return self._after_look(record, found, entry)

    async def _look(self, record: CallRecord, effect: Effect, account: Account) -> Inspection:
        # The intent was committed, so this was passed before anything was sent.
        account.trail.mark("authorised")
        entry, tool = self._tool(record)
        with account.trail.during("inspection"), self._services.outside(entry) as systems:
            found = await tool.inspect(effect, systems)
        account.trail.conclude(found)
        return found

    def _after_look(self, record: CallRecord, found: Inspection, entry: Entry) -> Progress:
        """What comes next for a call that was just looked at."""
        progress, effect = self.resume(record), record.details.effect
        if progress.next != "inspect" or effect is None:
            return progress
        patience, now = self._services.patience, record.updated_at
        if isinstance(found, Absent) and record.review is None:
            until = self._may_resend_until(entry, effect)
            if verdict_on(found, effect, patience, may_resend_until=until, now=now) == "resend":
                return progress.model_copy(update={"next": "resend"})
        return progress.model_copy(update={"after_seconds": next_look(effect, patience, now)})

    def _may_resend_until(self, entry: Entry, effect: Effect) -> datetime | None:
        """When the system that the effect was sent to may have forgotten its key; None where it is not sent again."""
        policy_tool = self._services.policy.tool(entry.manifest.name)
        if policy_tool is None or policy_tool.when_absent != "resend":
            return None
        systems = self._services.systems
        system = systems.payments if entry.manifest.queue == "payments" else systems.orders
        return effect.intended_at + system.key_validity

    async def _resend(self, request: CallRef, account: Account) -> Progress:
        with step("counterseal.resend", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            effect = record.details.effect
            if record.settled or record.review is not None or effect is None:
                return self.resume(record)
            entry, _ = self._tool(record)
            describe_tool(span, record.details.call.binding, entry.manifest, record.details.call.key_hash)
            found = await self._look(record, effect, account)
            if not isinstance(found, Absent):
                # Whoever looks next records it; here it only keeps the effect from being sent.
                return self.resume(record)
            again, changed = await self._intend_again(record, entry, effect, found)
            self._services.moved(again)
            if changed and again.details.effect is not None and again.review is None:
                self._services.reached("intent.after")
                again = await self.send(again, again.details.effect, account.trail)
            describe_outcome(span, again)
            await account.ended(again)
            return self.resume(again)

    async def _intend_again(
        self, record: CallRecord, entry: Entry, effect: Effect, absent: Absent
    ) -> tuple[CallRecord, bool]:
        """Commit the intent of a repeat under the same key, if everything still allows it; else ask a person."""
        services, call = self._services, record.details.call
        run = await services.here.admissions.run(call.binding.run_id, call.workflow_id)
        facts_since = run.now if run else record.created_at
        try:
            proposed = await read_facts(services, call, entry, self._arguments(record))
        except SystemUnavailable:
            return record, False

        def decide(current: CallRecord, reads: Reads) -> Step | None:
            if current.settled or current.review is not None or current.details.effect != effect:
                return None
            until = self._may_resend_until(entry, effect)
            verdict = verdict_on(absent, effect, services.patience, may_resend_until=until, now=reads.now)
            if verdict == "wait":
                return None
            allowed = not (isinstance(proposed, Refusal) or reads.revoked) and (
                deciding.still_allowed(services.policy, proposed, current.details, None, reads.reserved) is None
            )
            if isinstance(proposed, Refusal) or verdict != "resend" or not allowed:
                return needs_review(effect, "absent")
            return deciding.intended_again(services.policy, proposed, effect, reads.now)

        claim = None if isinstance(proposed, Refusal) else proposed.claim
        return await services.here.admissions.intend(call, claim.resource if claim else None, facts_since, decide)

    async def send(self, record: CallRecord, effect: Effect, trail: Trail) -> CallRecord:
        """Send an effect whose intent this very call just committed, and record the outcome."""
        entry, tool = self._tool(record)
        self._services.reached("send.before")
        with trail.during("effect"), self._services.outside(entry) as systems:
            outcome = await tool.execute(effect, systems)
        trail.conclude(outcome)
        self._services.reached("send.after")
        done = tool.done(self._arguments(record), outcome.result) if outcome.kind == "confirmed" else ""

        def decide(current: CallRecord, now: datetime) -> Step | None:
            if current.settled:
                return None
            return after_attempt(
                effect, outcome, done=done, operation=entry.manifest.operation, watched=tool.undone_late
            )

        self._services.reached("record.before")
        record, _ = await self._services.here.calls.advance(record.request_id, decide)
        self._services.reached("record.after")
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
