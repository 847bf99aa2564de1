"""What the policy would say to a refund. It has no rules of its own: it asks about a call of issue_refund."""

from typing import Annotated

from pydantic import Field, JsonValue

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import REGISTRY, Code
from schemas.money import Currency, Minor
from tools.facts import OrderId, own_order
from tools.issue_refund.models import LARGEST_REFUND
from tools.protocol import Arguments, Foresee, ForeseeingTool, Foreseen, Refusal
from tools.refunds import SMALLEST_REFUND

ASKED = "issue_refund"
_KEY = "0" * 32


class GetRefundEligibilityArguments(Arguments):
    order_id: OrderId
    amount_cents: Annotated[
        int | None,
        Field(ge=SMALLEST_REFUND, le=LARGEST_REFUND, description="Minor units; left out: as much as can be refunded"),
    ] = None


class GetRefundEligibilityResult(Model):
    """`max_amount_cents` is the most that one call of issue_refund could refund now; `because` says why not, or why a
    person would have to approve `amount_cents`."""

    order_id: str
    currency: Currency
    eligible: bool
    amount_cents: Minor
    max_amount_cents: Minor
    needs_approval: bool
    because: str | None = None
    use_tool: str | None = None


class GetRefundEligibility(ForeseeingTool[GetRefundEligibilityArguments, GetRefundEligibilityResult]):
    name = "get_refund_eligibility"
    arguments_model = GetRefundEligibilityArguments
    result_model = GetRefundEligibilityResult

    async def foresee(
        self, arguments: GetRefundEligibilityArguments, binding: Binding, systems: Systems, ask: Foresee
    ) -> GetRefundEligibilityResult | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        currency = order.currency
        seen = await ask(ASKED, _refund(order.order_id, arguments.amount_cents or SMALLEST_REFUND, currency))
        most = 0 if isinstance(seen, Refusal) else min(max(seen.available or 0, 0), LARGEST_REFUND)
        amount = arguments.amount_cents or max(most, SMALLEST_REFUND)
        if arguments.amount_cents is None and amount != SMALLEST_REFUND and not isinstance(seen, Refusal):
            seen = await ask(ASKED, _refund(order.order_id, amount, currency))
        return _answer(order.order_id, currency, amount, most, seen)

    def is_empty(self, result: GetRefundEligibilityResult) -> bool:
        return False

    def done(self, arguments: GetRefundEligibilityArguments, result: GetRefundEligibilityResult | None) -> str:
        return f"what a refund of order {arguments.order_id} would come to"


def _refund(order_id: str, amount: int, currency: str) -> dict[str, JsonValue]:
    """The arguments of a refund that nobody makes. The reason decides nothing."""
    return {
        "order_id": order_id,
        "amount_cents": amount,
        "currency": currency,
        "reason_code": "goodwill",
        "idempotency_key": _KEY,
    }


def _answer(
    order_id: str, currency: str, amount: int, most: int, seen: Foreseen | Refusal
) -> GetRefundEligibilityResult:
    """Pure. What was foreseen, in the words of this tool."""
    refused = isinstance(seen, Refusal) or seen.decision.verdict == "refuse"
    because: str | None
    use_tool: str | None = None
    if isinstance(seen, Refusal):
        said = seen.explanation.values
        because = str(said.get("because") or said.get("problem") or REGISTRY[seen.code].title)
    else:
        decision = seen.decision
        because = decision.because if decision.verdict in ("hold", "refuse") else None
        if decision.code is Code.REFUND_EXCEEDS_PAID:
            because = f"at most {most} can be refunded"
        use_tool = decision.explanation.use_tool if decision.explanation else None
    return GetRefundEligibilityResult(
        order_id=order_id,
        currency=currency,
        eligible=not refused,
        amount_cents=amount,
        max_amount_cents=most if not refused or _too_much(seen) else 0,
        needs_approval=not isinstance(seen, Refusal) and seen.decision.verdict == "hold",
        because=because,
        use_tool=use_tool,
    )


def _too_much(seen: Foreseen | Refusal) -> bool:
    return not isinstance(seen, Refusal) and seen.decision.code is Code.REFUND_EXCEEDS_PAID


TOOL = GetRefundEligibility()
