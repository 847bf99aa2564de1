"""The reset tool: for people who test and repair, never for an agent."""

from pydantic import JsonValue

from schemas.effects import Effect
from tools.orders import OrderArguments, OrderChangeFacts, OrderChangeResult, OrderChangeTool, OrderTarget


class ResetOrder(OrderChangeTool[OrderArguments]):
    name = "reset_order"
    kind = "reset"
    arguments_model = OrderArguments

    def order_target(self, arguments: OrderArguments) -> OrderTarget:
        return OrderTarget(order_id=arguments.order_id)

    def title(self, arguments: OrderArguments, facts: OrderChangeFacts) -> str:
        return f"Put order {facts.order.order_id} back as the store first had it"

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        # What it was at first is the store's to know.
        target = OrderTarget.model_validate(effect.target)
        return OrderChangeResult(order_id=target.order_id, status="reset").model_dump()

    def done(self, arguments: OrderArguments, result: dict[str, JsonValue]) -> str:
        return f"reset order {arguments.order_id}"


TOOL = ResetOrder()
