"""Stripe, and whatever speaks its refund API: https://docs.stripe.com/api/refunds

Writes carry an idempotency key (https://docs.stripe.com/api/idempotent_requests) and our operation id in the refund's
metadata (https://docs.stripe.com/api/metadata), by which a refund whose answer was lost is found again.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from gateways import stripe_wire as wire
from gateways.border import clipped, failed, problem_of, rate_limited, read, read_or_raise, unknown, unsent_or_unknown
from gateways.http import Answer, Answered, NotAnswered, Remote
from gateways.protocols import RefundRequest, SystemUnavailable
from gateways.stripe_wire import WireCharge, WireError, WirePaymentIntent, WireRefund, WireRefundPage
from schemas.codes import Code
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Failed, Inspection, Unknown
from schemas.facts import Payment, Refund

PAGE_SIZE = 100
MAX_LISTED = 5_000
MAX_BETWEEN = 500_000
# https://docs.stripe.com/api/versioning
VERSION = {"Stripe-Version": wire.API_VERSION}


@dataclass(frozen=True, slots=True)
class _Listed:
    """Every refund that was asked for, and the exchange that brought the last page."""

    exchange: Exchange
    refunds: list[WireRefund]


@dataclass(frozen=True, slots=True)
class _Unlisted:
    """The exchange that ended a listing early, and why."""

    exchange: Exchange
    problem: str


def named(payment_id: str) -> str:
    """The parameter by which Stripe knows the payment, told by the id's prefix."""
    return "payment_intent" if payment_id.startswith("pi_") else "charge"


class StripeGateway:
    """A `PaymentGateway`. Amounts in and out are ISO 4217 minor units."""

    name = "stripe"
    # "You can remove keys from the system automatically after they're at least 24 hours old."
    key_validity = timedelta(hours=24)

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def payment(self, payment_id: str) -> Payment | None:
        """https://docs.stripe.com/api/charges/retrieve, for a payment intent by way of its latest charge."""
        charge_id = payment_id
        if named(payment_id) == "payment_intent":
            answer = await self._get("/v1/payment_intents/{id}", payment_id)
            if _is_missing(answer):
                return None
            intent = read_or_raise(WirePaymentIntent, answer, self._remote.system)
            if intent.latest_charge is None:
                return None
            self._believe(intent.id == payment_id)
            charge_id = intent.latest_charge
        answer = await self._get("/v1/charges/{id}", charge_id)
        if _is_missing(answer):
            return None
        charge = read_or_raise(WireCharge, answer, self._remote.system)
        self._believe(charge.id == charge_id and (charge_id == payment_id or charge.payment_intent == payment_id))
        return wire.payment(charge, payment_id)

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        """https://docs.stripe.com/api/refunds/list; none for a payment that Stripe does not know."""
        listed = await self._list(payment_id)
        if isinstance(listed, _Unlisted):
            if listed.problem == "resource_missing":
                return ()
            raise SystemUnavailable(self._remote.system, listed.problem)
        self._believe(all(payment_id in (each.charge, each.payment_intent) for each in listed.refunds))
        return [wire.refund(each, payment_id) for each in listed.refunds]

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        """https://docs.stripe.com/api/refunds/list by `created`, which has whole seconds."""
        span = {"created[gte]": str(math.floor(since.timestamp())), "created[lt]": str(math.ceil(until.timestamp()))}
        listed = await self._pages(span, MAX_BETWEEN)
        if isinstance(listed, _Unlisted):
            raise SystemUnavailable(self._remote.system, listed.problem)
        refunds = [wire.refund(each, each.payment_intent or each.charge or "") for each in listed.refunds]
        return [each for each in refunds if since <= each.created_at < until]

    async def refund(self, request: RefundRequest) -> Attempt:
        """https://docs.stripe.com/api/refunds/create"""
        amount = wire.to_wire(request.amount, request.currency)
        if amount is None:
            return failed(Code.REMOTE_REFUSED, _unsent(self._remote.system, "inexpressible_amount"))
        answer = await self._remote.exchange(
            "POST",
            "/v1/refunds",
            form=_form(request, amount),
            idempotency_key=request.idempotency_key,
            headers=VERSION,
        )
        if isinstance(answer, NotAnswered):
            return unsent_or_unknown(answer)
        if answer.status != 200:
            return self._refused(answer)
        found = read(WireRefund, answer.json)
        if found is None:
            return unknown(answer.exchange, answer.exchange.problem or "unreadable")
        return judge(found, request, answer.exchange)

    async def find_refund(self, request: RefundRequest) -> Inspection:
        """Reads the payment's whole list. A list that cannot be read, or that has it twice, leaves it unknown."""
        listed = await self._list(request.payment_id)
        if isinstance(listed, _Unlisted):
            return unknown(listed.exchange, listed.problem)
        exchange = listed.exchange
        ours = [each for each in listed.refunds if each.operation_id == request.operation_id]
        match ours:
            case []:
                return Absent(exchange=exchange)
            case [found]:
                return judge(found, request, exchange)
            case _:
                return unknown(exchange, "found_twice")

    def _refused(self, answer: Answered) -> Failed | Unknown:
        code = wire.outcome(answer.status, read(WireError, answer.json), answer.headers)
        if code is None:
            return unknown(answer.exchange, f"http_{answer.status}")
        return rate_limited(answer, "payment") if code is Code.RATE_LIMITED else failed(code, answer.exchange)

    async def _get(self, template: str, id_: str) -> Answer:
        return await self._remote.exchange("GET", template, path={"id": id_}, headers=VERSION)

    async def _list(self, payment_id: str) -> _Listed | _Unlisted:
        return await self._pages({named(payment_id): payment_id}, MAX_LISTED)

    async def _pages(self, selection: Mapping[str, str], most: int) -> _Listed | _Unlisted:
        refunds: list[WireRefund] = []
        query = {**selection, "limit": str(PAGE_SIZE)}
        while True:
            answer = await self._remote.exchange("GET", "/v1/refunds", query=query, headers=VERSION)
            if _is_missing(answer):
                return _Unlisted(answer.exchange, "resource_missing")
            if isinstance(answer, NotAnswered) or answer.status != 200:
                return _Unlisted(answer.exchange, problem_of(answer))
            page = read(WireRefundPage, answer.json)
            if page is None or (page.has_more and not page.data):
                return _Unlisted(answer.exchange, "unreadable")
            refunds += page.data
            if not page.has_more:
                return _Listed(answer.exchange, refunds)
            if len(refunds) >= most:
                return _Unlisted(answer.exchange, "list_too_long")
            query["starting_after"] = page.data[-1].id

    def _believe(self, is_ours: bool) -> None:
        """Raises SystemUnavailable when an answer is not about what was asked for."""
        if not is_ours:
            raise SystemUnavailable(self._remote.system, "mismatched")


def _form(request: RefundRequest, amount: int) -> Mapping[str, str]:
    """The parameters of a refund; `amount` as Stripe has it. An empty note would unset one, so none is sent."""
    form = {
        named(request.payment_id): request.payment_id,
        "amount": str(amount),
        "reason": wire.reason(request.reason),
        f"metadata[{wire.OPERATION}]": request.operation_id,
        f"metadata[{wire.REASON}]": request.reason,
    }
    note = clipped(request.note or "", wire.LONGEST_VALUE)
    return form | {f"metadata[{wire.NOTE}]": note} if note else form


def judge(found: WireRefund, request: RefundRequest, exchange: Exchange) -> Confirmed | Failed | Unknown:
    """Pure. What a refund object says about our request; nothing is believed unless it is wholly ours."""
    matches = {
        "mismatched_operation": found.operation_id == request.operation_id,
        "mismatched_payment": request.payment_id in (found.charge, found.payment_intent),
        "mismatched_amount": found.amount == wire.to_wire(request.amount, request.currency),
        "mismatched_currency": found.currency.upper() == request.currency,
    }
    for problem, is_ours in matches.items():
        if not is_ours:
            return unknown(exchange, problem)
    if found.status in wire.RELEASED:
        return failed(Code.REMOTE_REFUSED, exchange)
    if found.status not in wire.HOLDING:
        return unknown(exchange, "unknown_status")
    return Confirmed(
        remote_id=found.id,
        result={
            "refund_id": found.id,
            "amount_cents": request.amount,
            "currency": request.currency,
            "status": found.status,
        },
        exchange=exchange,
        remote_at=datetime.fromtimestamp(found.created, UTC),
    )


def _is_missing(answer: Answer) -> bool:
    """A 404 of Stripe's own; any other 404 could be a wrong base URL."""
    if isinstance(answer, NotAnswered) or answer.status != 404:
        return False
    error = read(WireError, answer.json)
    return error is not None and error.error.code == "resource_missing"


def _unsent(system: str, problem: str) -> Exchange:
    return Exchange(
        system=system,
        method="POST",
        path_template="/v1/refunds",
        reached="nothing_sent",
        elapsed_ms=0,
        problem=problem,
    )
