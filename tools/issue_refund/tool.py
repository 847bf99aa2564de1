"""The refund tool: reads who paid what and how, and sends one refund to one payment."""

from pydantic import JsonValue

from gateways.protocols import Systems
from schemas.calls import Binding
from schemas.money import Money
from tools.issue_refund.models import IssueRefundArguments
from tools.protocol import Refusal
from tools.refunds import SMALLEST_REFUND, RefundFacts, RefundTool, Wanted, read_refund_facts, said


class IssueRefund(RefundTool[IssueRefundArguments, RefundFacts]):
    """One refund. The amount can never be more than the chosen payment has left at its gateway."""

    name = "issue_refund"
    arguments_model = IssueRefundArguments
    facts_model = RefundFacts
    amendable = ("amount_cents", "reason_code")

    def wanted(self, arguments: IssueRefundArguments, facts: RefundFacts) -> Wanted:
        return Wanted(arguments.amount_cents, arguments.currency, arguments.reason_code, arguments.note)

    async def read_facts(
        self, arguments: IssueRefundArguments, binding: Binding, systems: Systems
    ) -> RefundFacts | Refusal:
        return await read_refund_facts(arguments.order_id, arguments.payment_id, binding, systems)

    def repair(self, left: int) -> str:
        if left >= SMALLEST_REFUND:
            return f"Send again with amount_cents <= {left} and a new idempotency_key, or hand over to a person."
        if left > 0:
            return (
                "That is less than the smallest refund this tool can make; do not send it again, hand over to a person."
            )
        return "Nothing is left to refund; do not send it again."

    def done(self, arguments: IssueRefundArguments, result: dict[str, JsonValue]) -> str:
        return said(result, Money(amount=arguments.amount_cents, currency=arguments.currency), arguments.order_id)


TOOL = IssueRefund()
