"""PayPal, Payments v2: https://developer.paypal.com/docs/api/payments/v2/

A payment is a capture and its id the capture's. Writes carry a `PayPal-Request-Id`: repeated, it brings the refund's
latest status (https://developer.paypal.com/api/rest/reference/idempotency/). Our operation id is the refund's
`custom_id`, which comes back on it and appears in the merchant's reports alone; an `invoice_id` would be shown to the
customer. So would a `note_to_payer`, and what an agent wrote is not for the customer's mailbox: none is sent.

Refunds of a capture are found through the order that it belongs to; there is no other list of them.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from gateways import paypal_wire as wire
from gateways.border import failed, problem_of, rate_limited, read, read_or_raise, unknown, unsent_or_unknown
from gateways.http import Answer, Answered, NotAnswered, Remote
from gateways.paypal_api import PayPalApi
from gateways.paypal_wire import WireCapture, WireDisputes, WireError, WireOrder, WireRefund
from gateways.protocols import RefundRequest, SystemUnavailable
from schemas.codes import Code
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Failed, Inspection, Unknown
from schemas.facts import Payment, Refund

_CAPTURE = "/v2/payments/captures/{id}"
_REFUND_CAPTURE = "/v2/payments/captures/{id}/refund"
_REFUND = "/v2/payments/refunds/{id}"
_ORDER = "/v2/checkout/orders/{id}"
_DISPUTES = "/v1/customer/disputes"


@dataclass(frozen=True, slots=True)
class _Listed:
    """A capture, its order, and the refunds in it that are the capture's."""

    exchange: Exchange
    capture: WireCapture
    order: WireOrder
    refunds: list[WireRefund]


@dataclass(frozen=True, slots=True)
class _Unlisted:
    """The exchange that ended a listing early, and why."""

    exchange: Exchange
    problem: str


class PayPalGateway:
    """A `PaymentGateway`. Amounts in and out are ISO 4217 minor units, statuses the words of `paypal_wire.STATUSES`."""

    name = "paypal"
    # Of `PayPal-Request-Id` with captures' refunds: "The server stores keys for 45 days."
    key_validity = timedelta(days=45)

    def __init__(self, remote: Remote) -> None:
        """`remote` has the client's id and secret as its credential, for HTTP Basic."""
        self._api = PayPalApi(remote)

    async def payment(self, payment_id: str) -> Payment | None:
        """The capture with its order's refunds. Any dispute counts, as a list of them does not say who won."""
        disputes, listed = await asyncio.gather(
            self._api.get(_DISPUTES, query={"disputed_transaction_id": payment_id}), self._list(payment_id)
        )
        if isinstance(listed, _Unlisted):
            if listed.problem == "resource_missing":
                return None
            raise self._unavailable(listed.problem)
        found = read_or_raise(WireDisputes, disputes, self._api.system)
        refunds = self._understood(listed)
        payment = wire.payment(listed.capture, listed.order, refunds, disputed=bool(found.items))
        if payment is None:
            raise self._unavailable("unreadable")
        return payment

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        """Of the capture's order those that are the capture's; none for a capture that PayPal does not know."""
        listed = await self._list(payment_id)
        if isinstance(listed, _Unlisted):
            if listed.problem == "resource_missing":
                return ()
            raise self._unavailable(listed.problem)
        return sorted(self._understood(listed), key=lambda each: each.created_at, reverse=True)

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        """None: what lists transactions by time is a product of its own, with a permission of its own, and up to three
        hours late (https://developer.paypal.com/docs/api/transaction-search/v1/)."""
        return None

    async def refund(self, request: RefundRequest) -> Attempt:
        """https://developer.paypal.com/docs/api/payments/v2/#captures_refund"""
        value = wire.to_wire(request.amount, request.currency)
        if value is None:
            return failed(Code.REMOTE_REFUSED, _unsent(self._api.system, "inexpressible_amount"))
        answer = await self._api.post(
            _REFUND_CAPTURE,
            path={"id": request.payment_id},
            json={
                "amount": {"value": value, "currency_code": request.currency},
                "custom_id": request.operation_id,
            },
            request_id=request.idempotency_key,
        )
        if isinstance(answer, NotAnswered):
            if answer.nothing_sent and answer.exchange.problem == "auth_failed":
                return failed(Code.AUTH_FAILED, answer.exchange)
            return unsent_or_unknown(answer)
        # 201 for a new refund, 200 for one that an earlier request with this id made.
        if answer.status not in (200, 201):
            return self._refused(answer)
        found = read(WireRefund, answer.json)
        if found is None:
            return unknown(answer.exchange, answer.exchange.problem or "unreadable")
        return judge(found, request, answer.exchange)

    async def find_refund(self, request: RefundRequest) -> Inspection:
        """Looks through the capture's order, and reads what it finds itself, for its latest status."""
        listed = await self._list(request.payment_id)
        if isinstance(listed, _Unlisted):
            return unknown(listed.exchange, listed.problem)
        ours = [each for each in listed.refunds if each.custom_id == request.operation_id]
        match ours:
            case []:
                return Absent(exchange=listed.exchange)
            case [found]:
                judged = judge(found, request, listed.exchange)
                return judged if isinstance(judged, Unknown) else await self._latest(found.id, request)
            case _:
                return unknown(listed.exchange, "found_twice")

    async def _latest(self, refund_id: str, request: RefundRequest) -> Inspection:
        """https://developer.paypal.com/docs/api/payments/v2/#refunds_get"""
        answer = await self._api.get(_REFUND, path={"id": refund_id})
        found = read(WireRefund, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
        if found is None:
            return unknown(answer.exchange, problem_of(answer))
        if found.id != refund_id:
            return unknown(answer.exchange, "mismatched_refund")
        return judge(found, request, answer.exchange)

    def _refused(self, answer: Answered) -> Failed | Unknown:
        code = wire.outcome(answer.status, read(WireError, answer.json))
        if code is None:
            return unknown(answer.exchange, f"http_{answer.status}")
        return rate_limited(answer, "payment") if code is Code.RATE_LIMITED else failed(code, answer.exchange)

    async def _list(self, payment_id: str) -> _Listed | _Unlisted:
        answer = await self._api.get(_CAPTURE, path={"id": payment_id})
        capture = read(WireCapture, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
        if capture is None:
            return _Unlisted(answer.exchange, "resource_missing" if _is_missing(answer) else problem_of(answer))
        if capture.id != payment_id:
            return _Unlisted(answer.exchange, "mismatched")
        if capture.order_id is None:
            return _Unlisted(answer.exchange, "without_order")
        answer = await self._api.get(_ORDER, path={"id": capture.order_id})
        order = read(WireOrder, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
        if order is None:
            return _Unlisted(answer.exchange, problem_of(answer))
        if order.id != capture.order_id or payment_id not in order.capture_ids:
            return _Unlisted(answer.exchange, "mismatched")
        if any(each.payment_id is None for each in order.refunds):
            # It could be one of ours.
            return _Unlisted(answer.exchange, "unreadable")
        refunds = [each for each in order.refunds if each.payment_id == payment_id]
        return _Listed(answer.exchange, capture, order, refunds)

    def _understood(self, listed: _Listed) -> list[Refund]:
        found = [wire.refund(each, listed.capture.id) for each in listed.refunds]
        refunds = [each for each in found if each is not None]
        if len(refunds) != len(found):
            raise self._unavailable("unreadable")
        return refunds

    def _unavailable(self, problem: str) -> SystemUnavailable:
        return SystemUnavailable(self._api.system, problem)


def judge(found: WireRefund, request: RefundRequest, exchange: Exchange) -> Confirmed | Failed | Unknown:
    """Pure. What a refund object says about our request; nothing is believed unless it is wholly ours."""
    matches = {
        "mismatched_operation": found.custom_id == request.operation_id,
        "mismatched_payment": found.payment_id == request.payment_id,
        "mismatched_currency": found.amount.currency_code == request.currency,
        "mismatched_amount": wire.from_wire(found.amount) == request.amount,
    }
    for problem, is_ours in matches.items():
        if not is_ours:
            return unknown(exchange, problem)
    if found.status in wire.RELEASED:
        return failed(Code.REMOTE_REFUSED, exchange)
    status = wire.STATUSES.get(found.status or "")
    if status is None:
        return unknown(exchange, "unknown_status")
    return Confirmed(
        remote_id=found.id,
        result={
            "refund_id": found.id,
            "amount_cents": request.amount,
            "currency": request.currency,
            "status": status,
        },
        exchange=exchange,
        remote_at=found.create_time,
    )


def _is_missing(answer: Answer) -> bool:
    """A 404 of PayPal's own; any other 404 could be a wrong base URL."""
    if isinstance(answer, NotAnswered) or answer.status != 404:
        return False
    error = read(WireError, answer.json)
    return error is not None and error.name == "RESOURCE_NOT_FOUND"


def _unsent(system: str, problem: str) -> Exchange:
    return Exchange(
        system=system,
        method="POST",
        path_template=_REFUND_CAPTURE,
        reached="nothing_sent",
        elapsed_ms=0,
        problem=problem,
    )
