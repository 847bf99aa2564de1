"""What the load consists of: an endless stream of scenarios, and of faults for them. The same seed, the same stream."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Literal, TypeVar

from sandbox.faults import KINDS

Json = dict[str, Any]
T = TypeVar("T")

THRESHOLD = 20_000
RUN_LIMIT = 5
LATE_SECONDS = 2
"""How late a refund may appear in the gateway's list: less than the service takes absence for granted after."""

Deciding = Literal["approve", "deny", "both", "twice", "withdraw", "nobody"]
"""What people do about a parked call: approve it; deny it; one approves while another denies it; both approve at once,
one of them twice; one approves it while the agent takes it back; nobody does anything."""
_DECIDING: tuple[Deciding, ...] = (
    *("approve", "approve", "approve", "deny", "both", "both", "twice", "withdraw", "withdraw", "nobody"),
)

_WEBHOOKS: tuple[Json, ...] = (
    {"do": "repeat", "last": 5},
    {"do": "reverse", "last": 5},
    {"do": "before_answer", "times": 2},
    {"do": "unknown_object"},
    {"do": "forge", "how": "wrong_signature"},
    {"do": "forge", "how": "old_timestamp"},
)

_ARGUMENTS = {"delay": ("1", "3"), "late_visible": (str(LATE_SECONDS),), "429": ("1:rate_limit", "1:lock_timeout")}
_WRITE_FAULTS = [
    f"{name}:{argument}" if argument else name for name in sorted(KINDS) for argument in _ARGUMENTS.get(name, ("",))
]
_READ_FAULTS = [do for do in _WRITE_FAULTS if not KINDS[do.partition(":")[0]].only_refund]


@dataclass(frozen=True)
class Order:
    """An order of the scenario's customer. `captured` in cents; its payment's faults are its own."""

    order_id: str
    payment_id: str
    captured: int
    status: str


@dataclass(frozen=True)
class Call:
    """One tool call of an agent. Two with the same arguments are the same call, sent again."""

    tool: str
    arguments: Json
    dry_run: bool = False


Wave = tuple[Call, ...]
"""Calls that are sent at the same time."""


@dataclass(frozen=True)
class Scenario:
    """One customer, one order, one run: waves of calls, one after another, and what people do about those that wait."""

    number: int
    kind: str
    customer_id: str
    fraud: bool
    order: Order
    waves: tuple[Wave, ...]
    deciding: Deciding
    faults: tuple[Json, ...]
    webhooks: Json | None
    """How the gateway's webhooks are made awkward meanwhile."""
    sent_back: bool
    """The bank sends the refund of the first wave back before the next one."""

    @property
    def calls(self) -> int:
        """How many different calls there are."""
        return len({repr(call) for wave in self.waves for call in wave})


def scenarios(seed: int) -> Iterator[Scenario]:
    """The stream of a seed."""
    dice = random.Random(seed)
    kinds, deciding, faults = _deck(dice, list(_KINDS)), _deck(dice, _DECIDING), _faults(dice)
    webhooks = _deck(dice, _WEBHOOKS)
    number = 0
    while True:
        number += 1
        kind = next(kinds)
        spoiled = kind in _SPOILED and dice.random() < 0.6
        awkward = next(webhooks) if dice.random() < 0.3 else None
        yield _KINDS[kind](_Draft(dice, number, kind, next(deciding), next(faults) if spoiled else (), awkward))


def _deck(dice: random.Random, cards: Sequence[T]) -> Iterator[T]:
    """Every card once in random order, again and again."""
    while True:
        yield from dice.sample(cards, len(cards))


def _faults(dice: random.Random) -> Iterator[tuple[tuple[str, str], ...]]:
    """Sets of faults for one payment: first each kind alone on the refund, then also on the looks that follow a lost
    answer and on the facts that are read."""
    lost = ["commit_then_drop", "drop_before_read", "commit_then_500", "503"]
    yield from dice.sample([(("refund", do),) for do in _WRITE_FAULTS], len(_WRITE_FAULTS))
    every: list[tuple[tuple[str, str], ...]] = [(("refund", do),) for do in _WRITE_FAULTS]
    every += [(("refund", lost[n % len(lost)]), ("list", do)) for n, do in enumerate(_READ_FAULTS)]
    every += [(("get", do),) for do in _READ_FAULTS]
    yield from _deck(dice, every)


@dataclass(frozen=True)
class _Draft:
    """What scenarios of every kind are made from."""

    dice: random.Random
    number: int
    kind: str
    deciding: Deciding
    faults: tuple[tuple[str, str], ...]
    webhooks: Json | None

    def made(
        self,
        order: Order,
        *waves: Sequence[Call],
        fraud: bool = False,
        deciding: Deciding = "approve",
        sent_back: bool = False,
    ) -> Scenario:
        script: tuple[Json, ...] = tuple(
            {"operation": operation, "do": do, "times": 1, "payment_id": order.payment_id}
            for operation, do in self.faults
        )
        customer_id = f"cus_{self.token(12)}"
        of = tuple(tuple(wave) for wave in waves)
        return Scenario(
            self.number, self.kind, customer_id, fraud, order, of, deciding, script, self.webhooks, sent_back
        )

    def token(self, length: int) -> str:
        return f"{self.dice.getrandbits(4 * length):0{length}x}"

    def order(self, captured: int, status: str = "delivered") -> Order:
        mark = self.token(12)
        return Order(f"ord_{mark}", f"pay_{mark}", captured, status)

    def refund(self, order: Order, amount: int, *, key: str | None = None, dry_run: bool = False) -> Call:
        arguments: Json = {
            "order_id": order.order_id,
            "amount_cents": amount,
            "currency": "USD",
            "reason_code": "damaged",
            "note": "an example note",
            "idempotency_key": key or self.token(32),
        }
        return Call("issue_refund", arguments, dry_run)

    def change(self, order: Order, tool: Literal["cancel_order", "change_shipping_address"]) -> Call:
        arguments: Json = {"order_id": order.order_id, "idempotency_key": self.token(32)}
        if tool == "cancel_order":
            return Call(tool, {**arguments, "reason_code": "other"})
        street = f"{self.dice.randrange(1, 999)} Example Street"
        address = {"line1": street, "city": "Exampletown", "postal_code": "00000", "country": "US"}
        return Call(tool, {**arguments, "address": address})


def _free(draft: _Draft) -> Scenario:
    """A small refund that nobody is asked about."""
    order = draft.order(15_000)
    return draft.made(order, [draft.refund(order, draft.dice.randrange(100, 9_000))])


def _held(draft: _Draft) -> Scenario:
    """A refund over the threshold, and people who decide in all the ways they can."""
    order = draft.order(60_000)
    amount = draft.dice.randrange(THRESHOLD + 1, 45_000)
    return draft.made(order, [draft.refund(order, amount)], deciding=draft.deciding)


def _flagged(draft: _Draft) -> Scenario:
    """A small refund of a customer who is flagged for fraud."""
    order = draft.order(9_000)
    return draft.made(order, [draft.refund(order, 500)], fraud=True, deciding=draft.deciding)


def _repeated(draft: _Draft) -> Scenario:
    """The same call three times at once, and once more afterwards."""
    order = draft.order(15_000)
    call = draft.refund(order, draft.dice.randrange(100, 9_000))
    return draft.made(order, [call, call, call], [call])


def _conflict(draft: _Draft) -> Scenario:
    """Two calls under one key at once: one of them was never asked for."""
    order, key = draft.order(15_000), draft.token(32)
    one, other = draft.refund(order, 1_100, key=key), draft.refund(order, 2_200, key=key)
    return draft.made(order, [one, other, one], [other])


def _partials(draft: _Draft) -> Scenario:
    """Refunds that together are more than the order took, at once: two fit."""
    order = draft.order(9_000)
    amounts = [4_100, 4_200, 4_300, 4_400]
    return draft.made(order, [draft.refund(order, amount) for amount in amounts], [draft.refund(order, 700)])


def _large_partials(draft: _Draft) -> Scenario:
    """The same with refunds that people decide: what waits is reserved."""
    order = draft.order(50_000)
    return draft.made(
        order, [draft.refund(order, 20_100), draft.refund(order, 20_200), draft.refund(order, 20_300)], deciding="twice"
    )


def _duplicate(draft: _Draft) -> Scenario:
    """The same refund under another key, a moment later."""
    order = draft.order(12_000)
    return draft.made(
        order,
        [draft.refund(order, 1_500)],
        [draft.refund(order, 1_500)],
        deciding=draft.dice.choice(["approve", "deny"]),
    )


def _sent_back(draft: _Draft) -> Scenario:
    """A whole order is refunded, its bank sends that back, and the whole order is refunded again."""
    order = draft.order(9_000)
    return draft.made(order, [draft.refund(order, 9_000)], [draft.refund(order, 9_000)], sent_back=True)


def _run_limit(draft: _Draft) -> Scenario:
    """More refunds at once than a run may make."""
    order = draft.order(15_000)
    return draft.made(order, [draft.refund(order, 300 + n) for n in range(RUN_LIMIT + 2)])


def _changes(draft: _Draft) -> Scenario:
    """An open order: sent elsewhere, cancelled twice at once, sent elsewhere too late."""
    order = draft.order(7_000, "open")
    moved, cancelled = draft.change(order, "change_shipping_address"), draft.change(order, "cancel_order")
    again = draft.change(order, "cancel_order")
    late = draft.change(order, "change_shipping_address")
    return draft.made(order, [moved, moved], [cancelled, again, cancelled], [late])


def _dry(draft: _Draft) -> Scenario:
    """Asked what would happen, then asked to do it."""
    order, key = draft.order(15_000), draft.token(32)
    asked, wanted = draft.refund(order, 900, key=key, dry_run=True), draft.refund(order, 900, key=key)
    return draft.made(order, [asked], [wanted, asked], [Call("lookup_orders", {})])


_KINDS = {
    "free": _free,
    "free again": _free,
    "held": _held,
    "held again": _held,
    "flagged": _flagged,
    "repeated": _repeated,
    "conflict": _conflict,
    "partials": _partials,
    "large partials": _large_partials,
    "duplicate": _duplicate,
    "sent back": _sent_back,
    "run limit": _run_limit,
    "changes": _changes,
    "dry": _dry,
}
_SPOILED = {
    "free",
    "free again",
    "held",
    "held again",
    "repeated",
    "conflict",
    "partials",
    "large partials",
    "duplicate",
}


def order_line(scenario: Scenario) -> Json:
    """The scenario's order, ten days old, as a line of the store's."""
    order = scenario.order
    placed = (datetime.now(UTC) - timedelta(days=10)).strftime("%Y-%m-%dT%H:%M:%SZ")
    address = {"line1": "1 Example Street", "line2": None, "city": "Exampletown", "region": "EX"}
    return {
        "order_id": order.order_id,
        "customer_id": scenario.customer_id,
        "status": order.status,
        "placed_at": placed,
        "currency": "USD",
        "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": order.captured, "options": {}}],
        "payments": [{"payment_id": order.payment_id, "method": "card", "captured_cents": order.captured}],
        "refunds": [],
        "disputed": False,
        "shipping_address": {**address, "postal_code": "00000", "country": "US"},
        "tracking_ids": [],
    }


def customer_line(scenario: Scenario) -> Json:
    """The scenario's customer as a line of the store's."""
    return {
        "customer_id": scenario.customer_id,
        "name": f"Example Person {scenario.number}",
        "email": f"{scenario.customer_id}@example.com",
        "fraud_flag": scenario.fraud,
    }
