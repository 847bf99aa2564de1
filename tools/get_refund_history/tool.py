"""The refunds of an order, from the gateway that made them."""

from datetime import datetime

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.money import Currency, Minor
from tools.facts import OrderId, at_once, own_order
from tools.protocol import Arguments, ReadTool, Refusal

MAX_ITEMS = 20


class GetRefundHistoryArguments(Arguments):
    order_id: OrderId


class RefundLine(Model):
    refund_id: str
    amount_cents: Minor
    status: str
    created_at: datetime


class GetRefundHistoryResult(Model):
    """`refunded_cents` is the sum over all refunds that did not fail; `count` is how many refunds there are in all."""

    order_id: str
    currency: Currency
    refunded_cents: Minor
    refunds: tuple[RefundLine, ...]
    count: int
    truncated: bool


class GetRefundHistory(ReadTool[GetRefundHistoryArguments, GetRefundHistoryResult]):
    name = "get_refund_history"
    arguments_model = GetRefundHistoryArguments
    result_model = GetRefundHistoryResult

    async def read(
        self, arguments: GetRefundHistoryArguments, binding: Binding, systems: Systems
    ) -> GetRefundHistoryResult | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        by_payment = await at_once([systems.payments.refunds(each.payment_id) for each in order.payments])
        refunds = sorted(
            (refund for refunds in by_payment for refund in refunds), key=lambda each: each.created_at, reverse=True
        )
        shown = refunds[:MAX_ITEMS]
        return GetRefundHistoryResult(
            order_id=order.order_id,
            currency=order.currency,
            refunded_cents=sum(each.amount_cents for each in refunds if each.stands),
            refunds=tuple(
                RefundLine(
                    refund_id=each.refund_id,
                    amount_cents=each.amount_cents,
                    status=each.status,
                    created_at=each.created_at,
                )
                for each in shown
            ),
            count=len(refunds),
            truncated=len(shown) < len(refunds),
        )

    def is_empty(self, result: GetRefundHistoryResult) -> bool:
        return not result.refunds

    def done(self, arguments: GetRefundHistoryArguments, result: GetRefundHistoryResult | None) -> str:
        if result is None or not result.refunds:
            return f"no refunds of order {arguments.order_id}"
        return f"{result.count} refunds of order {arguments.order_id}"


TOOL = GetRefundHistory()
