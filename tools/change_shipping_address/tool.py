"""The address tool."""

from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from schemas.base import Model
from schemas.facts import Address
from tools.orders import OrderArguments, OrderChangeFacts, OrderChangeTool, OrderTarget
from tools.texts import PRINTABLE

Line = Annotated[str, StringConstraints(min_length=1, max_length=120, pattern=PRINTABLE)]
Place = Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=PRINTABLE)]


class AddressArguments(Model):
    line1: Annotated[Line, Field(description="Street and number")]
    line2: Line | None = None
    city: Place
    region: Annotated[Place | None, Field(description="State or province, where the country has them")] = None
    postal_code: Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z -]{0,15}$")]
    country: Annotated[str, StringConstraints(pattern=r"^[A-Z]{2}$"), Field(description="ISO 3166-1 alpha-2, e.g. US")]


class ChangeShippingAddressArguments(OrderArguments):
    address: Annotated[AddressArguments, Field(description="The whole new address")]


class ChangeShippingAddress(OrderChangeTool[ChangeShippingAddressArguments]):
    name = "change_shipping_address"
    kind = "change_shipping_address"
    arguments_model = ChangeShippingAddressArguments

    def order_target(self, arguments: ChangeShippingAddressArguments) -> OrderTarget:
        return OrderTarget(order_id=arguments.order_id, address=Address(**arguments.address.model_dump()))

    def title(self, arguments: ChangeShippingAddressArguments, facts: OrderChangeFacts) -> str:
        return f"Send order {facts.order.order_id} to another address"

    def done(self, arguments: ChangeShippingAddressArguments, result: dict[str, JsonValue]) -> str:
        return f"changed the shipping address of order {arguments.order_id}"


TOOL = ChangeShippingAddress()
