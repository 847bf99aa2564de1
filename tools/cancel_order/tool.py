"""The cancellation tool."""

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from tools.orders import OrderArguments, OrderChangeFacts, OrderChangeTool, OrderTarget

ReasonCode = Literal["no_longer_needed", "ordered_by_mistake", "found_better_price", "delivery_too_slow", "other"]


class CancelOrderArguments(OrderArguments):
    reason_code: Annotated[ReasonCode, Field(description="Why the customer does not want the order")]


class CancelOrder(OrderChangeTool[CancelOrderArguments]):
    name = "cancel_order"
    kind = "cancel"
    arguments_model = CancelOrderArguments

    def order_target(self, arguments: CancelOrderArguments) -> OrderTarget:
        return OrderTarget(order_id=arguments.order_id, reason=arguments.reason_code)

    def title(self, arguments: CancelOrderArguments, facts: OrderChangeFacts) -> str:
        return f"Cancel order {facts.order.order_id}"

    def done(self, arguments: CancelOrderArguments, result: dict[str, JsonValue]) -> str:
        return f"cancelled order {arguments.order_id}"


TOOL = CancelOrder()
