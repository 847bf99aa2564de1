"""The undo of a cancellation."""

from pydantic import JsonValue

from tools.orders import OrderArguments, OrderChangeFacts, OrderChangeTool, OrderTarget


class ReinstateOrder(OrderChangeTool[OrderArguments]):
    name = "reinstate_order"
    kind = "reinstate"
    arguments_model = OrderArguments

    def order_target(self, arguments: OrderArguments) -> OrderTarget:
        return OrderTarget(order_id=arguments.order_id)

    def title(self, arguments: OrderArguments, facts: OrderChangeFacts) -> str:
        return f"Reinstate the cancelled order {facts.order.order_id}"

    def done(self, arguments: OrderArguments, result: dict[str, JsonValue]) -> str:
        return f"reinstated order {arguments.order_id}"


TOOL = ReinstateOrder()
