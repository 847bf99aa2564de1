"""Makes the refund of a draft, once people have agreed to it; in everything else it is a refund like any other."""

from typing import Annotated, cast, get_args

from pydantic import Field, JsonValue, StringConstraints

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.facts import RefundDraft
from schemas.money import Currency, Minor, Money
from tools.draft_refund_request.tool import LARGEST_DRAFT
from tools.facts import OrderId, unknown_record
from tools.protocol import Refusal, WriteArguments
from tools.refunds import SMALLEST_REFUND, ReasonCode, RefundFacts, RefundTool, Wanted, read_refund_facts, said

DraftId = Annotated[str, StringConstraints(pattern=r"^rfd_[0-9A-Za-z]{12}$")]


class SubmitRefundArguments(WriteArguments):
    draft_id: Annotated[DraftId, Field(description="The draft, as draft_refund_request answered")]
    order_id: Annotated[OrderId, Field(description="The order that the draft is of")]
    note: Annotated[
        Annotated[str, StringConstraints(max_length=280)] | None,
        Field(description="What an approver should know. Shown as your words, never used to decide"),
    ] = None


class DraftFacts(Model):
    """`facts.draft`: what the store has written down."""

    draft_id: str
    amount_cents: Minor
    currency: Currency
    reason_code: ReasonCode


class SubmitRefundFacts(RefundFacts):
    draft: DraftFacts


class SubmitRefundForApproval(RefundTool[SubmitRefundArguments, SubmitRefundFacts]):
    name = "submit_refund_for_approval"
    arguments_model = SubmitRefundArguments
    facts_model = SubmitRefundFacts

    def wanted(self, arguments: SubmitRefundArguments, facts: SubmitRefundFacts) -> Wanted:
        draft = facts.draft
        return Wanted(draft.amount_cents, draft.currency, draft.reason_code, arguments.note)

    async def read_facts(
        self, arguments: SubmitRefundArguments, binding: Binding, systems: Systems
    ) -> SubmitRefundFacts | Refusal:
        draft = await systems.orders.draft(arguments.draft_id)
        facts = None if draft is None else draft_facts(draft)
        if draft is None or facts is None or draft.customer_id != binding.customer_id:
            return unknown_record("draft_id", "refund draft of this customer")
        if draft.order_id != arguments.order_id:
            return unknown_record("draft_id", "refund draft of that order")
        found = await read_refund_facts(draft.order_id, draft.payment_id, binding, systems)
        if isinstance(found, Refusal):
            return found
        return SubmitRefundFacts(**{name: getattr(found, name) for name in RefundFacts.model_fields}, draft=facts)

    def matters(self, facts: SubmitRefundFacts) -> dict[str, JsonValue]:
        return {**super().matters(facts), "draft": facts.draft.model_dump(mode="json")}

    def repair(self, left: int) -> str:
        if left < SMALLEST_REFUND:
            return "Nothing of a size that can be refunded is left; do not submit it again."
        return f"Draft again with draft_refund_request and amount_cents <= {left}, then submit that draft."

    def done(self, arguments: SubmitRefundArguments, result: dict[str, JsonValue]) -> str:
        amount = Money(amount=cast(int, result["amount_cents"]), currency=str(result["currency"]))
        return said(result, amount, arguments.order_id)


def draft_facts(draft: RefundDraft) -> DraftFacts | None:
    """Pure. None for a draft that no agent can have made: of another size, or for a reason that there is not."""
    if not SMALLEST_REFUND <= draft.amount_cents <= LARGEST_DRAFT or draft.reason not in get_args(ReasonCode):
        return None
    return DraftFacts(
        draft_id=draft.draft_id,
        amount_cents=draft.amount_cents,
        currency=draft.currency,
        reason_code=cast(ReasonCode, draft.reason),
    )


TOOL = SubmitRefundForApproval()
