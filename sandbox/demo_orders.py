"""The shop's own stock of demo orders, obviously invented. Ids are constants, so that a demo can refer to them.

Every date counts back from the moment given (the first start), so that a rule such as "at least 24 hours old" always
fits.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from sandbox.models import Customer, Order

ADA = "cus_DemoAda00001"
BRUNO = "cus_DemoBruno001"
CLEO = "cus_DemoCleo0001"
DARIO = "cus_DemoDario001"
ELIF = "cus_DemoElif0001"
FINN = "cus_DemoFinn0001"
GRETA = "cus_DemoGreta001"
HUGO = "cus_DemoHugo0001"
INES = "cus_DemoInes0001"
JONAS = "cus_DemoJonas001"
KEIKO = "cus_DemoKeiko001"
MALLORY = "cus_DemoMallory1"

FREE_REFUND = "ord_DemoFree0001"
PARKED_REFUND = "ord_DemoParked01"
FRAUD_FLAGGED = "ord_DemoFraud001"
OVER_PAID = "ord_DemoOverpay1"
SOMEBODY_ELSE = "ord_DemoOther001"
LOST_ANSWER = "ord_DemoLost0001"
INJECTED_NOTE = "ord_DemoInject01"
OPEN_TO_CANCEL = "ord_DemoCancel01"
OPEN_TO_READDRESS = "ord_DemoMoving01"
TOO_NEW = "ord_DemoTooNew01"
TWO_PAYMENTS = "ord_DemoTwoPay01"
IN_EUROS = "ord_DemoEuro0001"
PARTLY_REFUNDED = "ord_DemoPartly01"
DISPUTED = "ord_DemoDispute1"
CANCELLED = "ord_DemoGone0001"
SHIPPED = "ord_DemoShipped1"
DENIED_REFUND = "ord_DemoDenied01"
WITHDRAWN_REFUND = "ord_DemoWithdrw1"
DAILY_TOTAL_FIRST = "ord_DemoDaily001"
DAILY_TOTAL_SECOND = "ord_DemoDaily002"
LATE_FAILURE = "ord_DemoLateFail"
PAID_BY_PAYPAL = "ord_DemoPaypal01"

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


def payment_id(order_id: str, n: int = 1) -> str:
    """The id of a demo order's n-th payment."""
    return f"pay_{order_id.removeprefix('ord_')}{n}"


def demo_customers() -> list[Customer]:
    """Twelve customers; only MALLORY is flagged for fraud."""
    ids = [ADA, BRUNO, CLEO, DARIO, ELIF, FINN, GRETA, HUGO, INES, JONAS, KEIKO, MALLORY]
    first_names = [each.removeprefix("cus_Demo").rstrip("01") for each in ids]
    return [
        Customer(
            customer_id=id_, name=f"{name} Example", email=f"{name.lower()}@example.com", fraud_flag=id_ == MALLORY
        )
        for id_, name in zip(ids, first_names, strict=True)
    ]


def demo_orders(now: datetime) -> list[Order]:
    """The demo orders with dates that count back from `now` (with a time zone)."""

    order = partial(_order, now)
    return [
        # One item of 49.99 in a larger order: a refund small enough to run by itself.
        order(FREE_REFUND, ADA, 9 * _DAY, [("Desk Lamp", 4999), ("Bookend Pair", 7999)]),
        # Paid 410.00; a refund of 312.40 is over the threshold and waits for a person.
        order(PARKED_REFUND, BRUNO, 12 * _DAY, [("Espresso Machine", 31240), ("Grinder", 9760)]),
        # A small order of a customer who is flagged for fraud.
        order(FRAUD_FLAGGED, MALLORY, 6 * _DAY, [("Phone Case", 2400)]),
        # Paid 49.99: for trying to get back more than was paid.
        order(OVER_PAID, CLEO, 15 * _DAY, [("Wall Clock", 4999)]),
        # Belongs to HUGO: for trying it from another customer's run.
        order(SOMEBODY_ELSE, HUGO, 20 * _DAY, [("Rain Jacket", 8950)]),
        # The gateway does the refund and the answer is lost.
        order(LOST_ANSWER, DARIO, 8 * _DAY, [("Yoga Mat", 3500), ("Foam Roller", 2550)]),
        # The note that comes with this refund holds instructions for whoever reads it.
        order(INJECTED_NOTE, ELIF, 11 * _DAY, [("Headphones", 25900)]),
        # Not shipped yet: may be cancelled.
        order(OPEN_TO_CANCEL, FINN, 3 * _HOUR, [("Water Bottle", 1899)], status="open"),
        # Not shipped yet: the address may be changed.
        order(OPEN_TO_READDRESS, GRETA, 5 * _HOUR, [("Backpack", 6499)], status="open"),
        # Delivered by courier within two hours: too new to refund.
        order(TOO_NEW, HUGO, 2 * _HOUR, [("Bluetooth Speaker", 5999)]),
        # 80.00 by card and 45.00 by gift card.
        order(
            TWO_PAYMENTS, INES, 10 * _DAY, [("Cookware Set", 12500)], methods=("card", "gift_card"), split=(8000, 4500)
        ),
        # In another currency.
        order(IN_EUROS, JONAS, 14 * _DAY, [("Fountain Pen", 6400)], currency="EUR"),
        # Paid 80.00, of which 30.00 went back already.
        order(PARTLY_REFUNDED, INES, 30 * _DAY, [("Running Shoes", 8000)], refunded=3000),
        # The bank has opened a dispute: not refundable any more.
        order(DISPUTED, JONAS, 40 * _DAY, [("Camera Strap", 4200)], disputed=True),
        # Cancelled and refunded in full.
        order(CANCELLED, KEIKO, 25 * _DAY, [("Tea Kettle", 3999)], status="cancelled", refunded=3999),
        # On its way, older than a day: refundable.
        order(SHIPPED, KEIKO, 4 * _DAY, [("Puzzle", 2750)], status="shipped"),
        # Large: waits, and the person says no.
        order(DENIED_REFUND, KEIKO, 18 * _DAY, [("Office Chair", 48900)]),
        # Large: waits, and the agent takes it back.
        order(WITHDRAWN_REFUND, GRETA, 22 * _DAY, [("Air Purifier", 35900)]),
        # Two refunds of 120.00, each free alone, over the day's total of 200.00 together.
        order(DAILY_TOTAL_FIRST, FINN, 16 * _DAY, [("Winter Boots", 12000)]),
        order(DAILY_TOTAL_SECOND, FINN, 17 * _DAY, [("Wool Coat", 12000)]),
        # The refund goes through and fails days later.
        order(LATE_FAILURE, CLEO, 28 * _DAY, [("Scarf", 2900)]),
        # Not paid by card.
        order(PAID_BY_PAYPAL, BRUNO, 13 * _DAY, [("Garden Hose", 4100)], methods=("paypal",)),
    ]


_ADDRESS: dict[str, Any] = {
    "line1": "1 Example Street",
    "line2": None,
    "city": "Sampletown",
    "region": "CA",
    "postal_code": "90000",
    "country": "US",
}


def _order(
    now: datetime,
    order_id: str,
    customer_id: str,
    age: timedelta,
    items: Sequence[tuple[str, int]],
    *,
    status: str = "delivered",
    currency: str = "USD",
    methods: Sequence[str] = ("card",),
    split: Sequence[int] = (),
    refunded: int = 0,
    disputed: bool = False,
) -> Order:
    placed = now - age
    total = sum(cents for _, cents in items)
    amounts = split or (total,)
    return Order.model_validate(
        {
            "order_id": order_id,
            "customer_id": customer_id,
            "status": status,
            "placed_at": _iso(placed),
            "currency": currency,
            "items": [_item(n, name, cents) for n, (name, cents) in enumerate(items, 1)],
            "payments": [
                {"payment_id": payment_id(order_id, n), "method": method, "captured_cents": cents}
                for n, (method, cents) in enumerate(zip(methods, amounts, strict=True), 1)
            ],
            "refunds": _earlier_refund(order_id, refunded, placed + _DAY),
            "disputed": disputed,
            "shipping_address": _ADDRESS,
            "tracking_ids": [] if status == "open" else [f"TRACK{order_id[-8:].upper()}"],
        }
    )


def _item(n: int, name: str, cents: int) -> dict[str, Any]:
    return {"item_id": f"{n:010d}", "name": name, "quantity": 1, "price_cents": cents, "options": {}}


def _earlier_refund(order_id: str, cents: int, at: datetime) -> list[dict[str, Any]]:
    if cents == 0:
        return []
    payment = payment_id(order_id)
    return [
        {"refund_id": f"re_{payment}", "payment_id": payment, "amount_cents": cents, "refunded_at": _iso(at)},
    ]


def _iso(moment: datetime) -> str:
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")
