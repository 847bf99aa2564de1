"""Calls of every kind of history, one of each, straight through the ledger: between them every event that a call can
have."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from activities import deciding, reconsidering
from activities.deciding import Proposed
from activities.outcomes import after_attempt, after_inspection, after_recheck, needs_review
from activities.patience import Patience
from ledger.admission import Admitted, Window
from ledger.ledger import Ledger
from ledger.records import CallRecord, Step
from ledger.reviews import Conclusion
from ledger.switches import Reach
from policy.model import NOTHING_DONE
from schemas.codes import Code
from schemas.decisions import Approval, PolicyDecision
from schemas.effects import Absent, Confirmed, Effect, Failed, Unknown
from schemas.events import ApprovalExpired, BreakerTripped, CallSettled, DiagnosticOpened
from schemas.proofs import Proof
from tests.ledger.refunds import POLICY, TOOL, Refund, advance, decide, exchange
from tools.issue_refund.models import IssueRefundArguments

DONE = Confirmed(remote_id="re_1", result={"refund_id": "re_1", "status": "pending"}, exchange=exchange())
LATER = Confirmed(remote_id="re_1", result={"refund_id": "re_1", "status": "succeeded"}, exchange=exchange())
REFUSED = Failed(code=Code.REMOTE_REFUSED, exchange=exchange())
LOST = Unknown(exchange=exchange("bytes_sent"))
PATIENCE = Patience()
HELD: dict[str, Any] = {"amount": 25_000, "available": 100_000}


@dataclass(frozen=True)
class Histories:
    """Makes them in a ledger."""

    ledger: Ledger

    async def all(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """One of each."""
        for make in (
            *(self.done, self.failed, self.found, self.concluded, self.undone, self.after_all, self.sent_again),
            *(self.by_two, self.denied, self.expired, self.withdrawn, self.amended, self.asked_again, self.voided),
            *(self.refused, self.tripped, self.read, self.rejected),
        ):
            await make()
        await self.resumed(monkeypatch)

    async def held(self, **changes: Any) -> tuple[Refund, Approval]:
        refund = Refund(**{**HELD, **changes})
        record = await refund.admit(self.ledger)
        return refund, await self.approval(record)

    async def approval(self, record: CallRecord) -> Approval:
        assert record.approval_id is not None
        found = await self.ledger.approvals.get(record.tenant, record.approval_id)
        assert found is not None
        return found

    async def step(self, request_id: str, make: Callable[[CallRecord, datetime], Step | None]) -> CallRecord:
        record, changed = await self.ledger.calls.advance(request_id, make)
        assert changed
        return record

    async def attempt(self, record: CallRecord, outcome: Any, *, watched: bool = True) -> CallRecord:
        made = after_attempt(_effect(record), outcome, done="refunded", operation="refund", watched=watched)
        return await advance(self.ledger, record, made)

    async def look(self, record: CallRecord, found: Any, *, again: bool = False) -> CallRecord:
        def step(current: CallRecord, now: datetime) -> Step | None:
            if again:
                return after_recheck(current, _effect(current), found, done="refunded", now=now)
            return after_inspection(
                current,
                _effect(current),
                found,
                PATIENCE,
                may_resend_until=None,
                now=now,
                done="refunded",
                operation="refund",
                watched=True,
            )

        return await self.step(record.request_id, step)

    async def done(self) -> CallRecord:
        """Executed at once, completed at the gateway later, and still so."""
        record = await self.attempt(await Refund(1_000).admit(self.ledger), DONE)
        for found in (LATER, LATER, Absent(exchange=exchange()), LOST):
            record = await self.look(record, found, again=True)
        return record

    async def failed(self) -> CallRecord:
        return await self.attempt(await Refund(1_000).admit(self.ledger), REFUSED)

    async def found(self) -> CallRecord:
        """Lost with its worker, not there at first, and then there."""
        record = await Refund(1_000).admit(self.ledger)
        record = await self.look(record, Absent(exchange=exchange()))
        return await self.look(record, DONE)

    async def concluded(self) -> CallRecord:
        """Two that nobody found out about, settled by a person: not done, and done."""
        for happened in (False, True):
            record = await self.attempt(await Refund(1_000).admit(self.ledger), LOST)
            record = await self.step(record.request_id, lambda current, _: needs_review(_effect(current), "absent"))
            conclusion = Conclusion(
                operator="olga",
                because="absent",
                happened=happened,
                evidence="The dashboard says so",
                remote_id="re_2" if happened else None,
                result={"refund_id": "re_2"} if happened else None,
                done="refunded",
            )
            _, record = await self.ledger.of(record.tenant).reviews.conclude(record.request_id, conclusion)
            if not happened:
                await self.look(record, REFUSED, again=True)
        return record

    async def undone(self) -> CallRecord:
        record = await self.attempt(await Refund(1_000).admit(self.ledger), DONE)
        return await self.look(record, REFUSED, again=True)

    async def after_all(self) -> CallRecord:
        record = await self.attempt(await Refund(1_000).admit(self.ledger), REFUSED)
        return await self.look(record, DONE, again=True)

    async def sent_again(self) -> CallRecord:
        refund = Refund(1_000)
        record = await self.attempt(await refund.admit(self.ledger), LOST)
        record = await self.step(
            record.request_id,
            lambda current, now: reconsidering.intended_again(POLICY, refund.proposed, _effect(current), now),
        )
        return await self.attempt(record, DONE)

    async def by_two(self) -> CallRecord:
        """Looked at by two people, approved by both, one for somebody else and with a proof, and executed."""
        refund, approval = await self.held(amount=42_000)
        for viewer in ("ana", "ben", "ana"):
            await self.ledger.approvals.viewed(approval, viewer)
        proof = Proof(kind="password", at=datetime.now(UTC))
        await decide(self.ledger, approval, approver="ana", reason="The photo shows it", proof=proof)
        _, record = await decide(self.ledger, approval, approver="ben")
        assert record is not None
        assert record.status == "in_progress"
        await self.step(record.request_id, lambda _, now: reconsidering.intended(POLICY, refund.proposed, now))
        return await self.attempt(await self.ledger.calls.read(record.request_id), DONE)

    async def denied(self) -> CallRecord:
        _, approval = await self.held()
        await decide(self.ledger, approval, verdict="deny", reason="Ada Example has had it already")
        return await self.ledger.calls.read(approval.request_id)

    async def expired(self) -> CallRecord:
        """Given more time before, and that passes too."""
        _, approval = await self.held()
        until = approval.expires_at + timedelta(hours=2)
        own = self.ledger.of(approval.tenant).approvals
        await own.extend(approval, until, by="ana", reason="Ben is back tomorrow")
        over = ApprovalExpired(approval_id=approval.approval_id)
        settled = CallSettled(status="expired", code=Code.APPROVAL_EXPIRED)
        return await self.step(approval.request_id, lambda *_: Step([over, settled]))

    async def withdrawn(self) -> CallRecord:
        _, approval = await self.held()
        return (await self.ledger.approvals.withdraw(approval.request_id, "support-bot"))[0]

    async def amended(self) -> CallRecord:
        """Changed by a person to less, and denied then."""
        refund, approval = await self.held()
        changed = _with_amount(refund.proposed, 22_000)
        record = await self.step(
            approval.request_id,
            lambda current, now: _step(
                reconsidering.amended(POLICY, changed, current.details, approval.approval_id, "ana", "Half of it", now)
            ),
        )
        successor = await self.approval(record)
        assert (successor.amount, successor.approval_id != approval.approval_id) == (22_000, True)
        await decide(self.ledger, successor, verdict="deny", reason="no")
        return await self.ledger.calls.read(record.request_id)

    async def asked_again(self) -> CallRecord:
        """Approved, and not executed for so long that people are asked once more."""
        refund, approval = await self.held()
        _, record = await decide(self.ledger, approval)
        assert record is not None
        assert record.details.decision is not None
        lasts = record.details.decision.model_copy(update={"execute_within_seconds": 60})
        return await self.step(
            record.request_id,
            lambda _, now: reconsidering.asked_again(
                refund.proposed, lasts, approval.approval_id, now - timedelta(hours=1), now
            ),
        )

    async def voided(self) -> CallRecord:
        _, approval = await self.held()
        await decide(self.ledger, approval)
        return await self.step(
            approval.request_id, lambda *_: reconsidering.voided(approval.approval_id, "the facts have changed", {})
        )

    async def refused(self) -> CallRecord:
        """More than is there, and more often than is allowed."""
        call, decision = Refund(1_000).proposed.call, _refusal(Code.RATE_LIMITED)
        await self.ledger.admissions.record(call, deciding.refused(call, decision, NOTHING_DONE), datetime.now(UTC))
        return await Refund(50_000, available=10_000).admit(self.ledger)

    async def tripped(self) -> CallRecord:
        """By a breaker, which from then on counts anew; on a stream of the tenant's there is an event of it too."""
        call = Refund(1_000).proposed.call
        switch = f"tool:{TOOL}"
        trip = BreakerTripped(switch=switch, tool=TOOL, max=3, window_seconds=60, because="3 in a minute")
        refused = deciding.refused(call, _refusal(Code.CAPABILITY_DISABLED), NOTHING_DONE, trip)
        return await self.ledger.admissions.admit(
            call,
            [Window("breaker", "tool", 60, trips=switch)],
            None,
            datetime.now(UTC),
            lambda _: Admitted(refused.events, "3 in a minute, and the policy lets 3 run"),
        )

    async def read(self) -> CallRecord:
        """Of what changes nothing."""
        call = Refund(1_000).proposed.call
        decision = PolicyDecision(verdict="free", rule="reads", because="it only reads", policy_version=POLICY.version)
        answered = deciding.answered(
            call, decision, NOTHING_DONE, {"orders": []}, code=Code.NO_RESULTS, done="nothing found"
        )
        return await self.ledger.admissions.record(call, answered, datetime.now(UTC))

    async def rejected(self) -> CallRecord:
        """A forged decision, and diagnostics that somebody opened; it still waits."""
        _, approval = await self.held()
        await self.ledger.approvals.reject(approval.request_id, approval.approval_id, "bad_signature")
        opened = DiagnosticOpened(principal="olga", through="page")
        return await self.step(approval.request_id, lambda *_: Step([opened]))

    async def resumed(self, monkeypatch: pytest.MonkeyPatch) -> CallRecord:
        """Its deadline was paused by a switch."""
        monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
        _, approval = await self.held()
        tenant, switches = approval.tenant, self.ledger.switches
        await switches.turn_off(tenant, f"tool:{TOOL}", by="olga", reason="an example", deadlines="pause")
        await switches.turn_on(tenant, f"tool:{TOOL}", lambda *_: Reach(tenant=tenant), by="olga", reason="over")
        return await self.ledger.calls.read(approval.request_id)


def _effect(record: CallRecord) -> Effect:
    assert record.details.effect is not None
    return record.details.effect


def _step(made: Step | PolicyDecision) -> Step:
    assert isinstance(made, Step)
    return made


def _refusal(code: Code) -> PolicyDecision:
    return PolicyDecision(
        verdict="refuse", rule="a_limit", because="too often", policy_version=POLICY.version, code=code
    )


def _with_amount(proposed: Proposed, amount: int) -> Proposed:
    arguments = {**proposed.call.arguments, "amount_cents": amount}
    call = proposed.call.model_copy(update={"arguments": arguments})
    return Proposed(call, proposed.entry, proposed.tool, IssueRefundArguments.model_validate(arguments), proposed.facts)
