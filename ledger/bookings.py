"""When refunds and their reversals are booked, told from the events of their calls. Pure.

A refund is booked once, at the gateway's own time of it where its event has one that can be, else when the ledger
learned of it.
Gateways do not say when a refund failed: a reversal is booked when the ledger learned of it. So is money that was taken
back and went out after all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta, tzinfo
from typing import Literal, get_args

from pydantic import JsonValue

from schemas.codes import Status
from schemas.effects import Effect
from schemas.events import (
    ApprovalGranted,
    ApprovalSupported,
    EffectConfirmed,
    EffectIntended,
    Event,
    ReviewConcluded,
)

CLOCKS = timedelta(days=1)
"""How far a gateway's clock may be from the database's: what it says happened longer before it was sent, or after it
was learned, is booked by the ledger's time. So every booking is in some period's report."""
Kind = Literal["refund", "reversal"]
TimeOf = Literal["gateway", "ledger"]
Standing = Literal["unsent", "sent", "unknown", "in_review", "stands", "reversed", "failed"]
"""How the effect stands: never sent; sent and not answered yet; the answer lost, being looked up or a person's to
settle; confirmed; undone later; known not to have happened."""
By = Literal["reason_code", "tool", "agent", "approver", "rule", "currency", "day", "month"]
DIMENSIONS: tuple[By, ...] = get_args(By)
# The events that a refund is told from.
TOLD_BY = (
    *("approval.requested", "approval.supported", "approval.granted", "effect.intended", "effect.confirmed"),
    *("effect.failed", "effect.unknown", "effect.reversed", "review.requested", "review.concluded"),
)


@dataclass(frozen=True, slots=True)
class RefundCall:
    """A call whose tool refunds, by its plain columns."""

    request_id: str
    tenant: str
    tool: str
    agent_id: str
    rule: str
    policy_version: str
    status: Status
    operation_id: str | None = None
    remote_id: str | None = None


@dataclass(frozen=True, slots=True)
class Told:
    """One event of a call; `event` is None where the customer was erased, or its body is kept no longer."""

    type: str
    at: datetime
    event: Event | None


@dataclass(frozen=True, slots=True)
class Booking:
    """`amount` is in minor units of `currency`, below zero for a reversal; both None where the customer was erased."""

    at: datetime
    time_of: TimeOf
    kind: Kind
    amount: int | None
    currency: str | None


@dataclass(slots=True)
class Refund:
    """One refund as its events tell it. `amount` in minor units of `currency`; what is None was erased, or not sent.

    `approvers`: whose approval it was sent on, in order; `ana for ben` where it was by a lent right.
    """

    call: RefundCall
    standing: Standing = "unsent"
    amount: int | None = None
    currency: str | None = None
    reason_code: str | None = None
    payment_id: str | None = None
    operation_id: str | None = None
    refund_id: str | None = None
    approvers: tuple[str, ...] = ()
    sent_at: datetime | None = None
    erased: bool = False
    bookings: list[Booking] = field(default_factory=list[Booking])

    @property
    def is_open(self) -> bool:
        """Whether it was sent and is not known to have happened or not."""
        return self.standing in ("sent", "unknown", "in_review")


@dataclass(frozen=True, slots=True)
class Line:
    """A booking of a refund: what reports are made of."""

    refund: Refund
    booking: Booking


def refund_of(call: RefundCall, events: Sequence[Told]) -> Refund:
    """A fold over a call's events, in order, of the types `TOLD_BY`."""
    refund = Refund(call, operation_id=call.operation_id, refund_id=call.remote_id)
    for told in events:
        _apply(refund, told)
    return refund


def _apply(refund: Refund, told: Told) -> None:
    refund.erased |= told.event is None
    match told.type:
        case "approval.requested":
            refund.approvers = ()
        case "approval.supported" | "approval.granted":
            refund.approvers += _approver(told.event)
        case "effect.intended":
            _sent(refund, told)
        case "effect.confirmed":
            _happened(refund, told)
        case "effect.unknown":
            refund.standing = "unknown"
        case "review.requested":
            refund.standing = "in_review"
        case "effect.failed":
            refund.standing = "failed"
        case "effect.reversed":
            if refund.standing == "stands":
                _book(refund, "reversal", told.at, "ledger")
            refund.standing = "reversed"
        case "review.concluded":
            concluded = told.event
            happened = (
                concluded.happened if isinstance(concluded, ReviewConcluded) else refund.call.status == "executed"
            )
            if happened:
                _happened(refund, told)
            else:
                refund.standing = "failed"
        case _:
            pass


def _approver(event: Event | None) -> tuple[str, ...]:
    if not isinstance(event, ApprovalGranted | ApprovalSupported):
        return ()
    return (f"{event.approver} for {event.on_behalf_of}" if event.on_behalf_of else event.approver,)


def _sent(refund: Refund, told: Told) -> None:
    if refund.standing == "unsent":
        refund.standing, refund.sent_at = "sent", told.at
    if isinstance(told.event, EffectIntended):
        _describe(refund, told.event.effect)


def _describe(refund: Refund, effect: Effect) -> None:
    refund.operation_id = effect.operation_id
    refund.amount, refund.currency = amount_in(effect.target)
    refund.reason_code, refund.payment_id = _text(effect.target, "reason_code"), _text(effect.target, "payment_id")


def _happened(refund: Refund, told: Told) -> None:
    event = told.event
    if isinstance(event, EffectConfirmed | ReviewConcluded):
        refund.refund_id = event.remote_id or refund.refund_id
    if refund.standing == "stands":
        return
    refund.standing = "stands"
    remote_at = event.remote_at if isinstance(event, EffectConfirmed) and not refund.bookings else None
    earliest = (refund.sent_at or told.at) - CLOCKS
    if remote_at is not None and earliest <= remote_at <= told.at + CLOCKS:
        _book(refund, "refund", remote_at, "gateway")
    else:
        _book(refund, "refund", told.at, "ledger")


def _book(refund: Refund, kind: Kind, at: datetime, time_of: TimeOf) -> None:
    amount = -refund.amount if refund.amount is not None and kind == "reversal" else refund.amount
    refund.bookings.append(Booking(at, time_of, kind, amount, refund.currency))


def amount_in(said: Mapping[str, JsonValue]) -> tuple[int | None, str | None]:
    """Minor units and currency of a refund's arguments or target; (None, None) without both."""
    amount, currency = said.get("amount_cents"), said.get("currency")
    if isinstance(amount, int) and not isinstance(amount, bool) and isinstance(currency, str):
        return amount, currency
    return None, None


def _text(said: Mapping[str, JsonValue], name: str) -> str | None:
    value = said.get(name)
    return value if isinstance(value, str) else None


@dataclass(slots=True)
class Sum:
    """Bookings added up, in minor units of one currency. `refunded` ≥ 0 ≥ `reversed`; `net` is their sum."""

    refunds: int = 0
    refunded: int = 0
    reversals: int = 0
    reversed: int = 0

    @property
    def net(self) -> int:
        return self.refunded + self.reversed

    def add(self, booking: Booking) -> None:
        if booking.kind == "refund":
            self.refunds += 1
            self.refunded += booking.amount or 0
        else:
            self.reversals += 1
            self.reversed += booking.amount or 0


Key = tuple[str, ...]
ERASED = "(erased)"
NOBODY = "(nobody)"


def sums(lines: Iterable[Line], by: Sequence[By], zone: tzinfo) -> dict[tuple[Key, str], Sum]:
    """Sums by ((the value of each of `by`), currency), in order; amounts of two currencies are never added.

    What was erased has the currency `ERASED`: it is counted, and its amount is 0. A refund that two people approved is
    one of both together, so that it counts once.
    """
    found: dict[tuple[Key, str], Sum] = {}
    for line in lines:
        key = tuple(value_of(line, each, zone) for each in by)
        found.setdefault((key, line.booking.currency or ERASED), Sum()).add(line.booking)
    return dict(sorted(found.items()))


def value_of(line: Line, by: By, zone: tzinfo) -> str:
    """What a line is put under; days and months are those of `zone`."""
    refund, erased = line.refund, ERASED if line.refund.erased else ""
    match by:
        case "reason_code":
            return refund.reason_code or erased
        case "tool":
            return refund.call.tool
        case "agent":
            return refund.call.agent_id
        case "approver":
            return " + ".join(refund.approvers) or erased or NOBODY
        case "rule":
            return refund.call.rule
        case "currency":
            return line.booking.currency or ERASED
        case "day":
            return line.booking.at.astimezone(zone).date().isoformat()
        case "month":
            return line.booking.at.astimezone(zone).strftime("%Y-%m")
