"""People's decisions where they take effect: verified, recorded once, or rejected on the record."""

from datetime import datetime

from activities.services import Services
from ledger.approvals import Verdict
from ledger.assertions import holds
from ledger.people import how_many
from ledger.records import CallRecord
from ledger.signing import BadDecision
from schemas.decisions import HumanDecision
from schemas.switches import of_call


class Decisions:
    """Takes decisions in, whichever way they came."""

    def __init__(self, services: Services) -> None:
        self._services = services

    async def approved(
        self, record: CallRecord, approval_id: str | None, token: str | None
    ) -> tuple[CallRecord, HumanDecision | None]:
        """The call, and the valid approval that lets it run, the last one where several people have to approve; None
        while there is none.

        `token` is what was delivered; without one, what the ledger has recorded is verified instead.
        """
        recorded = await self._recorded(record)
        # What was recorded before it was delivered needs no second look under locks.
        if token is not None and not any(token == signed for signed, _ in recorded):
            record = await self.take(record, approval_id, token)
            recorded = await self._recorded(record)
        valid: dict[str, HumanDecision] = {}
        for signed, recorded_at in recorded:
            try:
                decision = self._services.verifier.verify(signed)
            except BadDecision:
                continue
            counts = decision.verdict == "approve" and decision.is_proven(record.details.proof) and holds(decision)
            if decision.approval_id == record.approval_id and counts:
                # How old it is, is for one clock to say: the one that judges it later, too.
                valid[decision.approver.casefold()] = decision.model_copy(update={"decided_at": recorded_at})
        digests = {decision.action_digest for decision in valid.values()}
        if len(digests) != 1 or await self._approvers(record, list(valid.values())) < record.details.people:
            return record, None
        return record, max(valid.values(), key=lambda decision: decision.decided_at)

    async def _recorded(self, record: CallRecord) -> list[tuple[str, datetime]]:
        """The signed decisions that let the call run, each with when it was recorded; none while it does not run."""
        if record.approval_id is None or record.status != "in_progress":
            return []
        return await self._services.ledger.of(record.tenant).approvals.granted_by(record.approval_id)

    async def _approvers(self, record: CallRecord, decisions: list[HumanDecision]) -> int:
        """How many different people made these decisions."""
        if record.details.people == 1:
            return len(decisions)
        # Accounts of one person count once, and so do whoever lent a right and whoever used it.
        whose = [
            [name.casefold() for name in (each.approver, each.on_behalf_of) if name is not None] for each in decisions
        ]
        approvals = self._services.ledger.of(record.tenant).approvals
        persons = await approvals.persons(record.tenant, [name for names in whose for name in names])
        return how_many([frozenset(persons.get(name, name) for name in names) for names in whose])

    async def take(self, record: CallRecord, approval_id: str | None, token: str) -> CallRecord:
        """Verify and record what was delivered; what does not hold is recorded as rejected. The call as it then is."""
        approvals = self._services.ledger.of(record.tenant).approvals
        try:
            decision = self._services.verifier.verify(token)
        except BadDecision as problem:
            return await approvals.reject(record.request_id, approval_id or "", str(problem))
        if decision.request_id != record.request_id or decision.approval_id != record.approval_id:
            return await approvals.reject(record.request_id, decision.approval_id, "made_for_another_approval")
        entry = self._services.catalog.get(record.tool)
        classes = entry.manifest.capability_classes if entry else ()
        switches = of_call(record.details.call.binding, record.tool, classes)
        outcome, after = await approvals.decide(decision, token, switches)
        if outcome in (Verdict.RECORDED, Verdict.WAITING, Verdict.REPEATED) and after is not None:
            return self._services.moved(after)
        return await approvals.reject(record.request_id, decision.approval_id, outcome.value)
