"""`inspect`, `resend` and `recheck`: what became of an effect whose outcome is not known, or was, and may be undone."""

from datetime import datetime

from temporalio import activity

from activities import reconsidering
from activities.beating import beating
from activities.diagnosing import Account, followed_step
from activities.effects import Effects, switches_of
from activities.outcomes import after_inspection, after_recheck, needs_review
from activities.patience import next_look, verdict_on
from activities.proposals import read_facts
from activities.services import Services
from activities.tracing import describe, describe_outcome, step
from gateways.protocols import SystemUnavailable
from ledger.admission import Reads
from ledger.records import CallRecord, Step
from policy.in_force import PolicyUnusable
from policy.model import Policy
from schemas.calls import CallRef, Progress
from schemas.effects import Absent, Effect, Inspection
from tools.catalog import Entry
from tools.protocol import Refusal, WriteTool

# Before a repeat that may not be made just now is thought of again.
_PAUSE_SECONDS = 60


class Inspecting:
    """Looks effects up by their operation id, and repeats under the same key what is not there."""

    def __init__(self, services: Services, effects: Effects) -> None:
        self._services = services
        self._effects = effects

    @activity.defn(name="inspect")
    async def inspect(self, request: CallRef) -> Progress:
        """Look the effect up by its operation id and record what was found.

        Progress: `settled`, `inspect` again after `after_seconds`, or `resend` (it is absent, and may be sent again).
        """
        async with beating(), followed_step(self._services, "inspect", request.request_id) as account:
            return await self._inspect(request, account)

    @activity.defn(name="resend")
    async def resend(self, request: CallRef) -> Progress:
        """Look once more, and when the effect is still absent send it again under the key it was first sent with.

        Progress: `settled`, or `inspect`.
        """
        async with beating(), followed_step(self._services, "resend", request.request_id) as account:
            return await self._resend(request, account)

    @activity.defn(name="recheck")
    async def recheck(self, request: CallRef) -> Progress:
        """Look again at an effect that was settled: its system may have undone it since.

        Of a call whose outcome is still unknown this is one more look. Progress: `settled` or `inspect`.
        """
        async with beating(), followed_step(self._services, "recheck", request.request_id) as account:
            return await self._inspect(request, account, again=True)

    async def _inspect(self, request: CallRef, account: Account, *, again: bool = False) -> Progress:
        with step("counterseal.inspect", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            entry, tool = self._effects.tool_of(record)
            describe(span, record, entry.manifest)
            effect = record.details.effect
            if effect is None or (record.settled and not again):
                return self._effects.resume(record)
            found = await self._look(record, effect, account)
            done = self._effects.done(record, found.result) if found.kind == "confirmed" else ""
            policy = await self._policy()

            def decide(current: CallRecord, now: datetime) -> Step | None:
                sent = current.details.effect or effect
                if current.settled:
                    return after_recheck(current, sent, found, done=done, now=now) if again else None
                return after_inspection(
                    current,
                    sent,
                    found,
                    self._services.patience,
                    may_resend_until=self._may_resend_until(policy, entry, sent),
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
            return self._after_look(policy, record, found, entry)

    async def _look(self, record: CallRecord, effect: Effect, account: Account) -> Inspection:
        # The intent was committed, so this was passed before anything was sent.
        account.trail.mark("authorised")
        entry, tool = self._effects.tool_of(record)
        with account.trail.during("inspection"), self._services.outside(entry, record.tenant) as systems:
            found = await tool.inspect(effect, systems)
        account.trail.conclude(found)
        return found

    async def _policy(self) -> Policy | None:
        """None while nothing can be decided by the policy in force: nothing is sent again then."""
        try:
            return await self._services.policies.now()
        except PolicyUnusable:
            return None

    def _after_look(self, policy: Policy | None, record: CallRecord, found: Inspection, entry: Entry) -> Progress:
        """What comes next for a call that was just looked at."""
        progress, effect = self._effects.resume(record), record.details.effect
        progress = progress.model_copy(update={"unread": found.kind == "unknown"})
        if progress.next != "inspect" or effect is None:
            return progress
        patience, now = self._services.patience, record.updated_at
        if isinstance(found, Absent) and record.review is None:
            until = self._may_resend_until(policy, entry, effect)
            if verdict_on(found, effect, patience, may_resend_until=until, now=now) == "resend":
                return progress.model_copy(update={"next": "resend"})
        return progress.model_copy(update={"after_seconds": next_look(effect, patience, now)})

    def _may_resend_until(self, policy: Policy | None, entry: Entry, effect: Effect) -> datetime | None:
        """When the system that the effect was sent to may have forgotten its key; None where it is not sent again."""
        policy_tool = None if policy is None else policy.tool(entry.manifest.name)
        if policy_tool is None or policy_tool.when_absent != "resend" or entry.manifest.idempotency != "key":
            return None
        systems = self._services.systems
        if systems is None:
            return None
        validity = entry.tool.key_validity if isinstance(entry.tool, WriteTool) else None
        return effect.intended_at + (validity or systems.of_queue(entry.manifest.queue).key_validity)

    async def _resend(self, request: CallRef, account: Account) -> Progress:
        with step("counterseal.resend", request.request_id) as span:
            record = await self._services.here.calls.read(request.request_id)
            account.about(record)
            entry, _ = self._effects.tool_of(record)
            describe(span, record, entry.manifest)
            effect = record.details.effect
            if record.settled or record.review is not None or effect is None:
                return self._effects.resume(record)
            found = await self._look(record, effect, account)
            if not isinstance(found, Absent):
                # Whoever looks next records it; here it only keeps the effect from being sent.
                return self._effects.resume(record)
            again, permit_until = await self._intend_again(record, entry, effect, found)
            self._services.moved(again)
            if permit_until is None or again.details.effect is None:
                # Not just now: the next look comes after a pause, and says again what may be done.
                return self._effects.resume(again).model_copy(update={"after_seconds": _PAUSE_SECONDS})
            self._services.reached("intent.after")
            again = await self._effects.send(again, again.details.effect, account.trail, permit_until)
            describe_outcome(span, again)
            await account.ended(again)
            return self._effects.resume(again)

    async def _intend_again(
        self, record: CallRecord, entry: Entry, effect: Effect, absent: Absent
    ) -> tuple[CallRecord, float | None]:
        """Commit the intent of a repeat under the same key, if everything still allows it; else ask a person.

        Returns the call after it, and until when the repeat may begin; None when it may not.
        """
        services, call = self._services, record.details.call
        permit_until: float | None = None
        policy = await self._policy()
        if policy is None:
            return record, None
        run = await services.here.admissions.run(call.binding.run_id, call.workflow_id)
        facts_since = run.now if run else record.created_at
        try:
            proposed = await read_facts(services, call, entry, self._effects.arguments_of(record))
        except SystemUnavailable:
            return record, None

        def decide(current: CallRecord, reads: Reads) -> Step | None:
            nonlocal permit_until
            if current.settled or current.review is not None or current.details.effect != effect:
                return None
            if reads.switched_off is not None:
                return None
            until = self._may_resend_until(policy, entry, effect)
            verdict = verdict_on(absent, effect, services.patience, may_resend_until=until, now=reads.now)
            if verdict == "wait":
                return None
            allowed = not (isinstance(proposed, Refusal) or reads.revoked) and (
                reconsidering.still_allowed(policy, proposed, current.details, None, reads.reserved) is None
            )
            if isinstance(proposed, Refusal) or verdict != "resend" or not allowed:
                return needs_review(effect, "absent")
            permit_until = reads.permit_until
            return reconsidering.intended_again(policy, proposed, effect, reads.now)

        claim = None if isinstance(proposed, Refusal) else proposed.claim
        again, _ = await services.here.admissions.intend(
            call, claim.resource if claim else None, facts_since, decide, switches_of(record, entry)
        )
        return again, permit_until
