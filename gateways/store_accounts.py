"""What the shop's order system knows beside orders: accounts, store credit, parcels and refund drafts."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from pydantic import Field, JsonValue

from gateways.border import (
    Amount,
    Border,
    Instant,
    RemoteId,
    failed,
    problem_of,
    rate_limited,
    read,
    read_or_raise,
    unknown,
    unsent_or_unknown,
)
from gateways.http import Answer, Answered, NotAnswered, Remote
from gateways.protocols import CreditRequest, DraftRequest, SystemUnavailable
from schemas.codes import Code
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Failed, Inspection, Unknown
from schemas.facts import Account, RefundDraft, Shipment, ShipmentEvent
from schemas.money import Currency

OPERATION = "counterseal_operation"

# (HTTP status, error code) -> what became of a write; None, like whatever is not listed, means unknown.
OUTCOMES: Mapping[tuple[int, str], Code | None] = {
    (400, "invalid_request"): Code.REMOTE_REFUSED,
    (400, "idempotency_key_required"): Code.REMOTE_REFUSED,
    (401, "unauthorized"): Code.AUTH_FAILED,
    (403, "forbidden"): Code.REMOTE_FORBIDDEN,
    (404, "not_found"): Code.REMOTE_REFUSED,
    (409, "invalid_state"): Code.INVALID_STATE,
    (409, "idempotency_conflict"): None,
    (422, "invalid_request"): Code.REMOTE_REFUSED,
    (429, "rate_limited"): Code.RATE_LIMITED,
}

# What can be part of a path; a carrier's id that cannot is one that the store has no parcel under.
_PLAIN = re.compile(r"[0-9A-Za-z_-]{1,255}")

M = TypeVar("M", bound=Border)


class WireErrorDetails(Border):
    code: str
    status: str | None = None


class WireError(Border):
    error: WireErrorDetails


class _Account(Border):
    customer_id: RemoteId
    since: Instant | None
    tier: str
    currency: Currency
    credit_cents: Amount
    open_orders: Annotated[int, Field(ge=0)]
    fraud_flag: bool


class _Event(Border):
    at: Instant
    state: str
    place: str


class _Shipment(Border):
    tracking_id: RemoteId
    order_id: RemoteId
    carrier: str
    state: str
    events: list[_Event]
    note: str | None = None


class _Draft(Border):
    draft_id: RemoteId
    order_id: RemoteId
    customer_id: RemoteId
    payment_id: RemoteId | None
    amount_cents: Amount
    currency: Currency
    reason: str | None
    operation_id: str | None


class _Drafts(Border):
    refund_drafts: list[_Draft]


class _Credit(Border):
    credit_id: RemoteId
    customer_id: RemoteId
    amount_cents: Amount
    currency: Currency
    operation_id: str | None
    balance_cents: Amount


class _Credits(Border):
    credits: list[_Credit]


class StoreAccounts:
    """An `AccountSystem`."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def account(self, customer_id: str) -> Account | None:
        answer = await self._remote.exchange("GET", "/customers/{id}/account", path={"id": customer_id})
        if is_missing(answer):
            return None
        account = read_or_raise(_Account, answer, self._remote.system)
        if account.customer_id != customer_id:
            raise SystemUnavailable(self._remote.system, "mismatched")
        return Account(**account.model_dump())

    async def shipment(self, tracking_id: str) -> Shipment | None:
        if _PLAIN.fullmatch(tracking_id) is None:
            return None
        answer = await self._remote.exchange("GET", "/shipments/{id}", path={"id": tracking_id})
        if is_missing(answer):
            return None
        found = read_or_raise(_Shipment, answer, self._remote.system)
        if found.tracking_id != tracking_id:
            raise SystemUnavailable(self._remote.system, "mismatched")
        newest_first = sorted(found.events, key=lambda each: each.at, reverse=True)
        events = tuple(ShipmentEvent(**each.model_dump()) for each in newest_first)
        return Shipment(**found.model_dump(exclude={"events"}), events=events)

    async def draft(self, draft_id: str) -> RefundDraft | None:
        answer = await self._remote.exchange("GET", "/refund_drafts/{id}", path={"id": draft_id})
        if is_missing(answer):
            return None
        draft = read_or_raise(_Draft, answer, self._remote.system)
        if draft.draft_id != draft_id:
            raise SystemUnavailable(self._remote.system, "mismatched")
        return RefundDraft(**draft.model_dump(exclude={"operation_id"}))

    async def create_draft(self, request: DraftRequest) -> Attempt:
        body: dict[str, JsonValue] = {
            "order_id": request.order_id,
            "payment_id": request.payment_id,
            "amount_cents": request.amount,
            "currency": request.currency,
            "reason": request.reason,
            "metadata": {OPERATION: request.operation_id},
        }
        answer = await self._remote.exchange(
            "POST", "/refund_drafts", json=body, idempotency_key=request.idempotency_key
        )
        draft, outcome = _written(_Draft, answer)
        if draft is None:
            return outcome
        return _drafted(draft, request, outcome.exchange)

    async def find_draft(self, request: DraftRequest) -> Inspection:
        answer = await self._remote.exchange("GET", "/refund_drafts", query={"operation_id": request.operation_id})
        found = _listed(_Drafts, answer)
        if found is None:
            return unknown(answer.exchange, problem_of(answer))
        own = [each for each in found.refund_drafts if each.operation_id == request.operation_id]
        return _drafted(own[0], request, answer.exchange) if own else Absent(exchange=answer.exchange)

    async def credit(self, request: CreditRequest) -> Attempt:
        body: dict[str, JsonValue] = {
            "amount_cents": request.amount,
            "currency": request.currency,
            "reason": request.reason,
            "metadata": {OPERATION: request.operation_id},
        }
        answer = await self._remote.exchange(
            "POST",
            "/customers/{id}/credits",
            path={"id": request.customer_id},
            json=body,
            idempotency_key=request.idempotency_key,
        )
        credit, outcome = _written(_Credit, answer)
        if credit is None:
            return outcome
        return _credited(credit, request, outcome.exchange)

    async def find_credit(self, request: CreditRequest) -> Inspection:
        answer = await self._remote.exchange(
            "GET",
            "/customers/{id}/credits",
            path={"id": request.customer_id},
            query={"operation_id": request.operation_id},
        )
        found = _listed(_Credits, answer)
        if found is None:
            return unknown(answer.exchange, problem_of(answer))
        own = [each for each in found.credits if each.operation_id == request.operation_id]
        return _credited(own[0], request, answer.exchange) if own else Absent(exchange=answer.exchange)


def _written(model: type[M], answer: Answer) -> tuple[M, Unknown] | tuple[None, Failed | Unknown]:
    """(what a write answered, what it is until that was compared with what was asked); or why there is nothing."""
    if isinstance(answer, NotAnswered):
        return None, unsent_or_unknown(answer)
    if answer.status != 200:
        return None, refused(answer)
    message = read(model, answer.json)
    if message is None:
        return None, unknown(answer.exchange, "unreadable")
    return message, unknown(answer.exchange)


def _listed(model: type[M], answer: Answer) -> M | None:
    return read(model, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None


def _drafted(draft: _Draft, request: DraftRequest, exchange: Exchange) -> Confirmed | Unknown:
    """Nothing is believed of an answer that is not what was asked for."""
    ours = (draft.order_id, draft.payment_id, draft.amount_cents, draft.currency, draft.reason, draft.operation_id)
    asked = (
        request.order_id,
        request.payment_id,
        request.amount,
        request.currency,
        request.reason,
        request.operation_id,
    )
    if ours != asked:
        return unknown(exchange, "mismatched_draft")
    result: dict[str, Any] = {
        "draft_id": draft.draft_id,
        "order_id": draft.order_id,
        "amount_cents": draft.amount_cents,
        "currency": draft.currency,
    }
    return Confirmed(remote_id=draft.draft_id, result=result, exchange=exchange)


def _credited(credit: _Credit, request: CreditRequest, exchange: Exchange) -> Confirmed | Unknown:
    ours = (credit.customer_id, credit.amount_cents, credit.currency, credit.operation_id)
    if ours != (request.customer_id, request.amount, request.currency, request.operation_id):
        return unknown(exchange, "mismatched_credit")
    result: dict[str, JsonValue] = {
        "credit_id": credit.credit_id,
        "amount_cents": credit.amount_cents,
        "currency": credit.currency,
        "balance_cents": credit.balance_cents,
    }
    return Confirmed(remote_id=credit.credit_id, result=result, exchange=exchange)


def refused(answer: Answered) -> Failed | Unknown:
    """What became of a write that the store did not answer with 200."""
    error = read(WireError, answer.json)
    code = None if error is None else OUTCOMES.get((answer.status, error.error.code))
    if code is None:
        return unknown(answer.exchange, f"http_{answer.status}")
    if code is Code.RATE_LIMITED:
        return rate_limited(answer, "order")
    return failed(code, answer.exchange)


def is_missing(answer: Answer) -> bool:
    """A 404 of the store's own; any other 404 could be a wrong base URL."""
    if isinstance(answer, NotAnswered) or answer.status != 404:
        return False
    error = read(WireError, answer.json)
    return error is not None and error.error.code == "not_found"
