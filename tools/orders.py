"""What the tools that change an order have in common: the facts, the target, one write on the order system."""

from abc import abstractmethod
from datetime import UTC, datetime
from typing import ClassVar, Literal, TypeVar

from pydantic import JsonValue

from gateways.protocols import OrderChange, Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.decisions import Claim
from schemas.effects import Attempt, Effect, Inspection
from schemas.facts import Address
from tools.facts import CustomerFacts, OrderFacts, OrderId, customer_facts, order_facts, own_order
from tools.protocol import Refusal, WriteArguments, WriteTool


class OrderArguments(WriteArguments):
    order_id: OrderId


class OrderChangeFacts(Model):
    order: OrderFacts
    customer: CustomerFacts
    facts_at: datetime


class OrderChangeResult(Model):
    order_id: str
    status: str


class OrderTarget(Model):
    """`Effect.target` of a change of an order."""

    order_id: str
    reason: str | None = None
    address: Address | None = None


C = TypeVar("C", bound=OrderArguments)


class OrderChangeTool(WriteTool[C, OrderChangeFacts, OrderChangeResult]):
    """A write on one order of the run's customer. Which states allow it is the policy's to say, and the store's."""

    kind: ClassVar[Literal["cancel", "reinstate", "change_shipping_address", "reset"]]
    facts_model = OrderChangeFacts
    result_model = OrderChangeResult

    @abstractmethod
    def order_target(self, arguments: C) -> OrderTarget:
        """Pure. The target, typed."""

    async def read_facts(self, arguments: C, binding: Binding, systems: Systems) -> OrderChangeFacts | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        at = datetime.now(UTC)
        return OrderChangeFacts(order=order_facts(order, at), customer=customer_facts(order.customer), facts_at=at)

    def check(self, arguments: C, facts: OrderChangeFacts) -> Refusal | None:
        return None

    def claim(self, arguments: C, facts: OrderChangeFacts) -> Claim | None:
        return None

    def matters(self, facts: OrderChangeFacts) -> dict[str, JsonValue]:
        return {
            "order_status": facts.order.status,
            "order_version": facts.order.version,
            "fraud_flag": facts.customer.fraud_flag,
        }

    def target(self, arguments: C, facts: OrderChangeFacts) -> dict[str, JsonValue]:
        return self.order_target(arguments).model_dump()

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        return await systems.orders.change(self._change(effect))

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        return await systems.orders.find_change(self._change(effect))

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        target = OrderTarget.model_validate(effect.target)
        # The policy lets these changes be made to open orders, and reinstating makes one.
        status = "cancelled" if self.kind == "cancel" else "open"
        return OrderChangeResult(order_id=target.order_id, status=status).model_dump()

    def _change(self, effect: Effect) -> OrderChange:
        target = OrderTarget.model_validate(effect.target)
        return OrderChange(
            kind=self.kind,
            order_id=target.order_id,
            operation_id=effect.operation_id,
            idempotency_key=effect.gateway_key,
            reason=target.reason,
            address=target.address,
        )
