"""The parcels of an order. Asked for by the order, so that no tracking id can be tried out."""

from datetime import datetime
from typing import Literal, cast, get_args

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.facts import Shipment
from tools.facts import OrderId, at_once, own_order
from tools.protocol import Arguments, ReadTool, Refusal
from tools.untrusted import Untrusted, UntrustedText, untrusted

MAX_SHIPMENTS, MAX_EVENTS, MAX_NOTE = 5, 5, 500

ShipmentState = Literal[
    "label_created", "in_transit", "out_for_delivery", "delivered", "returned", "lost", "exception", "other"
]


class LookupShipmentArguments(Arguments):
    order_id: OrderId


class ShipmentEventLine(Model):
    at: datetime
    state: ShipmentState


class ShipmentLine(Model):
    """`events` are the last ones, newest first."""

    tracking_id: str
    carrier: str
    state: ShipmentState
    events: tuple[ShipmentEventLine, ...]


class LookupShipmentResult(Model):
    """`count` is how many parcels the order has; `untrusted` has what couriers or the customer wrote on them."""

    order_id: str
    shipments: tuple[ShipmentLine, ...]
    count: int
    truncated: bool
    untrusted: Untrusted | None = None


class LookupShipment(ReadTool[LookupShipmentArguments, LookupShipmentResult]):
    name = "lookup_shipment"
    arguments_model = LookupShipmentArguments
    result_model = LookupShipmentResult

    async def read(
        self, arguments: LookupShipmentArguments, binding: Binding, systems: Systems
    ) -> LookupShipmentResult | Refusal:
        order = await own_order(systems.orders, arguments.order_id, binding)
        if isinstance(order, Refusal):
            return order
        asked = order.tracking_ids[:MAX_SHIPMENTS]
        read = await at_once([systems.orders.shipment(each) for each in asked])
        # An id that the carrier has given to another order's parcel since tells nothing of this one.
        found = [each for each in read if each is not None and each.order_id == order.order_id]
        notes = [UntrustedText(ref=each.tracking_id, text=each.note) for each in found if each.note]
        return LookupShipmentResult(
            order_id=order.order_id,
            shipments=tuple(shipment_line(each) for each in found),
            count=len(order.tracking_ids),
            truncated=len(found) < len(order.tracking_ids),
            untrusted=untrusted("shipment_notes", notes, MAX_NOTE),
        )

    def is_empty(self, result: LookupShipmentResult) -> bool:
        return not result.shipments

    def done(self, arguments: LookupShipmentArguments, result: LookupShipmentResult | None) -> str:
        if result is None or not result.shipments:
            return f"no parcels of order {arguments.order_id}"
        return f"{len(result.shipments)} of {result.count} parcels of order {arguments.order_id}"


def shipment_line(shipment: Shipment) -> ShipmentLine:
    """Pure. What the carrier calls a state that we do not know is not passed on."""
    events = tuple(ShipmentEventLine(at=each.at, state=_state(each.state)) for each in shipment.events[:MAX_EVENTS])
    return ShipmentLine(
        tracking_id=shipment.tracking_id, carrier=shipment.carrier, state=_state(shipment.state), events=events
    )


def _state(word: str) -> ShipmentState:
    return cast(ShipmentState, word) if word in get_args(ShipmentState) else "other"


TOOL = LookupShipment()
