"""`execute`: one attempt. Only who has just committed an intent sends, and sends that one once."""

import time
from contextlib import suppress
from datetime import datetime
from typing import Any

from pydantic import JsonValue
from temporalio import activity

from activities import deciding, reconsidering, tracing
from activities.beating import beating
from activities.deciding import Proposed
from activities.decisions import Decisions
from activities.diagnosing import Account, followed_step
from activities.outcomes import after_attempt
from activities.proposals import on_settled_facts
from activities.services import Services
from activities.tracing import describe, describe_outcome, step
from gateways.permits import permitted
from gateways.protocols import SystemUnavailable
from gateways.trail import Trail
from ledger.admission import Reads
from ledger.database import UNAVAILABLE
from ledger.records import CallRecord, Step
from policy.in_force import PolicyUnusable
from schemas.calls import ExecuteRequest, Next, Progress
from schemas.codes import Code
from schemas.decisions import HumanDecision
from schemas.effects import Attempt, Effect, Failed
from schemas.switches import PERMIT, code_of, of_call, of_tool
from tools.catalog import Entry
from tools.protocol import Refusal, WriteArguments, WriteTool

# How often at most an attempt is begun that does not get as far as its first byte in time.
_BEGINNINGS = 5


class Effects:
    """Sends effects."""

    def __init__(self, services: Services, decisions: Decisions) -> None:
        self._services = services
        self._decisions = decisions

    @activity.defn(name="execute")
    async def execute(self, request: ExecuteRequest) -> Progress:
        """Send the effect of a decided call, once. A second run finds the intent and never sends.

        Progress: `settled`, `inspect` (outcome unknown), `hold` (what was delivered is no valid decision), or `execute`
        (facts could not be read; nothing was sent).
        """
        async with beating(), followed_step(self._services, "execute", request.request_id) as account:
            return await self._execute(request, account)

    @activity.defn(name="execute_here")
    async def execute_here(self, request: ExecuteRequest) -> Progress | None:
        """The same beside the workflow, without another hop; None in a process that sends no effects itself, where
        nothing was done. As an activity of the workflow's own task it may run again, like any second run."""
        return await self.execute(request) if self._services.inline else None

    async def _execute(self, request: ExecuteRequest, account: Account) -> Progress:
        with step("counterseal.execute", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            entry, _ = self.tool_of(record)
            describe(span, record, entry.manifest)
            approved: HumanDecision | None = None
            if record.verdict == "hold" and record.intended_at is None and not record.settled:
                record, approved = await self._decisions.approved(record, request.approval_id, request.token)
                if approved is None:
                    await account.ended(record)
                    return self.resume(record)
            describe_outcome(span, record)
            if record.settled or record.intended_at is not None:
                return self.resume(record)
            self._services.reached("intent.before")
            try:
                record, changed, permit_until = await self._intend(record, entry, approved)
            except SystemUnavailable as problem:
                account.trail.problem = problem.problem
                await account.keep(record, failure=problem)
                return self.resume(record)
            except PolicyUnusable as problem:
                account.trail.problem = "policy_unusable"
                await account.keep(record, failure=problem)
                return self.resume(record)
            self._services.moved(record)
            if not changed:
                return self.resume(record)
            self._services.reached("intent.after")
            intended = record
            if record.details.effect is not None and not record.settled:
                account.trail.mark("authorised")
                record = await self.send(record, record.details.effect, account.trail, permit_until)
                describe_outcome(span, record)
            if approved is not None:
                # Once: whoever looks again finds the call moved on. Nothing waits for it, least of all the effect.
                await self.waited(intended, approved.approval_id, approved.decided_at, request.decided_in)
            await account.ended(record)
            self._services.reached("completion.before")
            return self.resume(record)

    async def waited(
        self, record: CallRecord, approval_id: str | None, until: datetime, decided_in: str | None = None
    ) -> None:
        """Have it told that the call waited for people on this approval, until then; where the database is away just
        now, nobody is told."""
        with suppress(*UNAVAILABLE):
            since = None if approval_id is None else await self._services.here.approvals.requested_at(approval_id)
            if since is not None:
                entry = self._services.catalog.get(record.tool)
                tracing.waited(record, entry and entry.manifest, since, until, decided_in)

    async def send(self, record: CallRecord, effect: Effect, trail: Trail, permit_until: float) -> CallRecord:
        """Send an effect whose intent this very call just committed, and record the outcome.

        `permit_until`: by then the first byte leaves, or the kill switches are asked again.
        """
        entry, tool = self.tool_of(record)
        self._services.reached("send.before")
        outcome = await self._attempt(record, entry, tool, effect, trail, permit_until)
        trail.conclude(outcome)
        self._services.reached("send.after")
        done = self.done(record, outcome.result) if outcome.kind == "confirmed" else ""

        def decide(current: CallRecord, now: datetime) -> Step | None:
            if current.settled:
                return None
            # Sent again meanwhile: then what became of this attempt says nothing of the effect.
            latest = current.details.effect or effect
            return after_attempt(
                latest, outcome, done=done, operation=entry.manifest.operation, watched=tool.undone_late
            )

        self._services.reached("record.before")
        record, _ = await self._services.here.calls.advance(record.request_id, decide)
        self._services.reached("record.after")
        return self._services.moved(record)

    async def _attempt(
        self,
        record: CallRecord,
        entry: Entry,
        tool: WriteTool[Any, Any, Any],
        effect: Effect,
        trail: Trail,
        permit_until: float,
    ) -> Attempt:
        """One attempt; one that did not begin in time begins again while no switch is off."""
        until, switches = permit_until, switches_of(record, entry)
        beginnings = 0
        while True:
            beginnings += 1
            with trail.during("effect"), permitted(until), self._services.outside(entry, record.tenant) as systems:
                outcome = await tool.execute(effect, systems)
            expired = isinstance(outcome, Failed) and outcome.exchange.problem == "permit_expired"
            if not expired or beginnings == _BEGINNINGS:
                return outcome
            until = time.monotonic() + PERMIT.total_seconds()
            off = await self._services.here.permits.first_off(record.tenant, switches)
            if off is not None:
                return Failed(code=code_of(off), exchange=outcome.exchange)

    def resume(self, record: CallRecord) -> Progress:
        """What comes next for a call that stands where `record` says; the one place that knows."""
        services = self._services
        return record.progress(
            _next(record),
            queue=services.effect_queue(record.tool),
            expires_at=_deadline(record),
            inline=services.inline,
        )

    async def _intend(
        self, record: CallRecord, entry: Entry, approved: HumanDecision | None
    ) -> tuple[CallRecord, bool, float]:
        """Ask the switches, read the facts again, ask the policy again, and commit the intent or the refusal. Raises
        SystemUnavailable and PolicyUnusable; nothing was committed then.

        Returns the call after it, whether this changed it, and until when its effect may begin.
        """
        services, call = self._services, record.details.call
        own_switches = of_tool(call.tool, entry.manifest.capability_classes)
        run = await services.here.admissions.run(call.binding.run_id, call.workflow_id, own_switches)
        facts_since = run.now if run else record.created_at
        if run is not None and run.switched_off is not None:
            off = run.switched_off
            return *(
                await services.here.calls.advance(record.request_id, lambda current, _: _stopped(current, off))
            ), 0.0

        async def decide(
            proposed: Proposed | Refusal, counted: tuple[str, ...] | None
        ) -> tuple[CallRecord, bool, float]:
            return await self._decide(record, entry, proposed, approved, facts_since, counted)

        try:
            return await on_settled_facts(services, call, entry, self.arguments_of(record), facts_since, decide)
        except deciding.ContendedError:
            # What it needs is its own, and only seems to be taken while others are on their way: later.
            return record, False, 0.0

    async def _decide(
        self,
        record: CallRecord,
        entry: Entry,
        proposed: Proposed | Refusal,
        approved: HumanDecision | None,
        facts_since: datetime,
        counted: tuple[str, ...] | None,
    ) -> tuple[CallRecord, bool, float]:
        """Decide in one transaction. Raises ContendedError while it is not known what the facts contain."""
        services, permit_until = self._services, 0.0
        policy = await services.policies.now()

        def decide(current: CallRecord, reads: Reads) -> Step | None:
            nonlocal permit_until
            permit_until = reads.permit_until
            if current.settled or current.intended_at is not None:
                return None
            if reads.switched_off is not None:
                return reconsidering.stopped(reads.switched_off, current.approval_id)
            if reads.revoked:
                return reconsidering.voided(current.approval_id, "the run was revoked", {})
            if isinstance(proposed, Refusal):
                return reconsidering.voided(current.approval_id, _GONE.get(proposed.code, _NOT_FOUND), {})
            if counted is None:
                deciding.contend(proposed, reads)
            approved_digest = approved.action_digest if approved else None
            because = reconsidering.still_allowed(policy, proposed, current.details, approved_digest, reads.reserved)
            if because is not None:
                return reconsidering.voided(current.approval_id, because, proposed.facts.model_dump(mode="json"))
            if approved is not None and current.details.decision is not None:
                again = reconsidering.asked_again(
                    proposed, current.details.decision, approved.approval_id, approved.decided_at, reads.now
                )
                if again is not None:
                    return again
            return reconsidering.intended(policy, proposed, reads.now)

        claim = None if isinstance(proposed, Refusal) else proposed.claim
        intended = await services.here.admissions.intend(
            record.details.call,
            claim.resource if claim else None,
            facts_since,
            decide,
            switches_of(record, entry),
            counted or (),
        )
        return *intended, permit_until

    def tool_of(self, record: CallRecord) -> tuple[Entry, WriteTool[Any, Any, Any]]:
        entry = self._services.catalog.get(record.tool)
        if entry is None or not isinstance(entry.tool, WriteTool):
            raise LookupError(f"this worker does not have the tool {record.tool}")
        return entry, entry.tool

    def done(self, record: CallRecord, result: dict[str, JsonValue]) -> str:
        """What was done, for the sentence of the reply."""
        _, tool = self.tool_of(record)
        said = tool.done(self.arguments_of(record), result)
        return said if record.details.requested is None else f"{said}, as a person changed it before approving it"

    def arguments_of(self, record: CallRecord) -> WriteArguments:
        arguments = self._services.catalog.validate_arguments(record.tool, record.details.call.arguments)
        if not isinstance(arguments, WriteArguments):
            raise LookupError(f"the recorded arguments no longer fit {record.tool}")
        return arguments


_NOT_FOUND = "the record can no longer be found"
_GONE = {Code.CAPABILITY_DISABLED: "the tool is not what was reviewed any more"}


def switches_of(record: CallRecord, entry: Entry) -> list[str]:
    """The kill switches that cover a call."""
    return of_call(record.details.call.binding, record.tool, entry.manifest.capability_classes)


def _stopped(record: CallRecord, switch: str) -> Step | None:
    if record.settled or record.intended_at is not None:
        return None
    return reconsidering.stopped(switch, record.approval_id)


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
