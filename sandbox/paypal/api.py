"""The REST API, with the fault script between the request and the answer.

A request passes authentication, the rate limiter (here: the faults with which nothing happens), the check of its body,
its `PayPal-Request-Id`, the endpoint. Everything up to the record of it is one transaction, committed before the first
byte of the answer. Of the fault script's operations `refund` is the refund of a capture, `list` the order with its
refunds, `get` every other read.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import Response

from sandbox import faults, hostile
from sandbox.faults import Fault, Operation
from sandbox.models import Line
from sandbox.paypal import damage, refunds, shapes, tokens
from sandbox.paypal.refunds import ORDINARY, Twist, Wanted
from sandbox.paypal.shapes import PayPalError, json_answer
from sandbox.paypal.tokens import Client
from sandbox.state import State
from sandbox.stripe_shapes import Answer

_WITHOUT_ANSWER = {"commit_then_drop", "late_visible", "drop_before_read", "reset"}
_Text127 = Annotated[str, StringConstraints(min_length=1, max_length=127)]


class Money(Line):
    currency_code: Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
    value: Annotated[str, StringConstraints(max_length=32)]


class RefundRequest(Line):
    """https://developer.paypal.com/docs/api/payments/v2/#definition-refund_request"""

    amount: Money | None = None
    custom_id: _Text127 | None = None
    invoice_id: _Text127 | None = None
    note_to_payer: Annotated[str, Field(min_length=1, max_length=255)] | None = None


@dataclass(frozen=True)
class Call:
    """A request: what it is, and whom it concerns."""

    method: str
    path: str
    base: str
    operation: Operation | None
    resource: str
    id: str
    request_id: str | None
    content_type: str
    whole: bool
    body: bytes


@dataclass(frozen=True)
class Outcome:
    """What was done with a call (`what`), the true answer, and the fault that spoils it on the way."""

    what: str
    answer: Answer
    fault: Fault | None = None

    @property
    def done(self) -> str:
        return self.what if self.fault is None else f"{self.what}; {self.fault.do}"

    @property
    def status(self) -> int | None:
        """The HTTP status that the caller gets to see, None when it gets none."""
        if self.fault is None:
            return self.answer.status
        if self.fault.name in _WITHOUT_ANSWER:
            return None
        return 200 if self.fault.name in {"slow_drip", "garbage", "html"} else self.answer.status


class Api:
    """`/v1` and `/v2` on a state, for one client."""

    def __init__(self, state: State, client: Client) -> None:
        self._state = state
        self._client = client
        self._in_flight: set[str] = set()

    async def token(self, request: Request) -> Response:
        form = (await request.body()).decode("utf-8", "replace")
        with self._state.transaction():
            answer = tokens.issue(self._state, self._client, request.headers.get("authorization", ""), form)
            what = "token" if answer.status == 200 else "unauthorized"
            self._record("POST", request.url.path, None, None, Outcome(what, answer))
        return hostile.Plain(answer, {"PayPal-Debug-Id": shapes.new_id()})

    async def rest(self, request: Request) -> Response:
        call = _call(request, await request.body())
        authorization = request.headers.get("authorization", "")
        with self._state.transaction():
            if not authorization:
                outcome = Outcome("unauthorized", shapes.unauthenticated().answer)
            elif not tokens.is_good(self._state, authorization):
                outcome = Outcome("unauthorized", shapes.invalid_token())
            else:
                outcome = self._process(call)
            self._record(call.method, call.path, call.operation, call.request_id, outcome)
        return self._deliver(call, outcome, {"PayPal-Debug-Id": shapes.new_id()})

    def _record(self, method: str, path: str, operation: str | None, key: str | None, outcome: Outcome) -> None:
        self._state.db.execute(
            "INSERT INTO requests (method, path, operation, idempotency_key, done, status, at_us)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            (method, path, operation, key, outcome.done, outcome.status, self._state.now_us()),
        )

    def _process(self, call: Call) -> Outcome:
        fault = None
        if call.operation is not None:
            fault = faults.take(self._state, call.operation, lambda: self._capture_id(call))
        if fault is not None and not fault.executes:
            return Outcome("nothing", _refusal(call, fault), fault)
        try:
            what, answer = self._refund(call, fault) if call.operation == "refund" else ("read", self._read(call))
        except PayPalError as error:
            what, answer = "refused", error.answer
        if fault is not None and fault.name == "commit_then_500":
            answer = shapes.server_error(500).answer
        return Outcome(what, answer, fault)

    def _capture_id(self, call: Call) -> str | None:
        """The capture that a call concerns; of an order's the first."""
        query = {
            "orders": "SELECT capture_id FROM captures WHERE order_id = ? ORDER BY capture_id",
            "refunds": "SELECT capture_id FROM refunds WHERE refund_id = ?",
        }.get(call.resource)
        if query is None:
            return call.id
        row = self._state.db.execute(query, (call.id,)).fetchone()
        return None if row is None else row["capture_id"]

    def _refund(self, call: Call, fault: Fault | None) -> tuple[str, Answer]:
        wanted = _wanted(call)
        if call.request_id is not None:
            if call.request_id in self._in_flight:
                raise shapes.in_progress()
            earlier = refunds.by_request_id(self._state, call.request_id)
            if earlier is not None:
                return "replayed", self._refund_answer(call, earlier, 200)
        return "created", self._refund_answer(
            call, refunds.create(self._state, wanted, call.request_id, _twist(fault)), 201
        )

    def _refund_answer(self, call: Call, found: shapes.Refund, status: int) -> Answer:
        if not call.whole:
            return json_answer(shapes.minimal(call.base, found), status)
        return json_answer(refunds.shape(self._state, call.base, found), status)

    def _read(self, call: Call) -> Answer:
        readers: dict[str, Callable[[Call], shapes.Shape]] = {
            "captures": lambda call: self._capture(call.base, refunds.capture(self._state, call.id)),
            "refunds": lambda call: refunds.shape(self._state, call.base, refunds.look(self._state, call.id)),
            "orders": self._order,
            "disputes": self._disputes,
        }
        reader = readers.get(call.resource)
        if reader is None or call.operation is None:
            raise shapes.missing()
        return json_answer(reader(call))

    def _capture(self, base: str, found: shapes.Capture) -> shapes.Shape:
        return shapes.capture(base, found, refunds.refunded(self._state, found.capture_id))

    def _order(self, call: Call) -> shapes.Shape:
        captures = refunds.captures_of_order(self._state, call.id)
        made = [refunds.shape(self._state, call.base, each) for each in refunds.of_order(self._state, call.id)]
        shown = [self._capture(call.base, each) for each in captures]
        return shapes.order(call.base, call.id, captures[0].method, shown, made)

    def _disputes(self, call: Call) -> shapes.Shape:
        try:
            found = refunds.capture(self._state, call.id)
        except PayPalError:
            return shapes.disputes(call.base, [])
        return shapes.disputes(call.base, [shapes.dispute(call.base, found)] if found.disputed else [])

    def _deliver(self, call: Call, outcome: Outcome, headers: dict[str, str]) -> Response:
        answer, fault = outcome.answer, outcome.fault
        match fault.name if fault is not None else "":
            case "reset":
                return hostile.Dropped(reset=True)
            case name if name in _WITHOUT_ANSWER:
                return hostile.Dropped()
            case "slow_drip":
                return hostile.SlowDrip(headers)
            case "delay" if fault is not None:
                return self._delayed(call, hostile.Plain(answer, headers), fault.microseconds / 1_000_000)
            case "garbage":
                return hostile.Plain(Answer(200, hostile.GARBAGE), headers)
            case "html":
                return hostile.Plain(Answer(200, hostile.LOGIN_PAGE), headers, "text/html")
            case "duplicate_keys":
                return hostile.Plain(replace(answer, body=damage.with_duplicate_keys(answer.body)), headers)
            case "wrong_amount":
                return hostile.Plain(replace(answer, body=damage.with_wrong_amount(answer.body)), headers)
            case "wrong_id":
                return hostile.Plain(replace(answer, body=damage.with_wrong_id(answer.body)), headers)
            case _:
                return hostile.Plain(answer, headers)

    def _delayed(self, call: Call, response: Response, seconds: float) -> Response:
        """Until the delay is over the request counts as in progress to another one with its id."""
        key = call.request_id if call.operation == "refund" else None
        if key is None or key in self._in_flight:
            return hostile.Delayed(response, seconds, lambda: None)
        self._in_flight.add(key)
        return hostile.Delayed(response, seconds, lambda: self._in_flight.discard(key))


def _call(request: Request, body: bytes) -> Call:
    operation: Operation | None
    match (request.method, request.url.path.strip("/").split("/")):
        case ("POST", ["v2", "payments", "captures", id_, "refund"]):
            operation, resource = "refund", "captures"
        case ("GET", ["v2", "payments", ("captures" | "refunds") as resource, id_]):
            operation = "get"
        case ("GET", ["v2", "checkout", "orders", id_]):
            operation, resource = "list", "orders"
        case ("GET", ["v1", "customer", "disputes"]):
            operation, resource, id_ = "get", "disputes", request.query_params.get("disputed_transaction_id", "")
        case _:
            operation, resource, id_ = None, "", ""
    return Call(
        method=request.method,
        path=request.url.path,
        base=str(request.base_url).rstrip("/"),
        operation=operation,
        resource=resource,
        id=id_,
        request_id=request.headers.get("paypal-request-id"),
        content_type=request.headers.get("content-type", "").partition(";")[0].strip().lower(),
        whole="return=representation" in request.headers.get("prefer", ""),
        body=body,
    )


def _wanted(call: Call) -> Wanted:
    if call.content_type != "application/json":
        message = "The server does not support the request payload's media type."
        raise PayPalError(415, "UNSUPPORTED_MEDIA_TYPE", message)
    try:
        asked = RefundRequest.model_validate_json(call.body or b"{}")
    except ValidationError as error:
        too_long = error.errors()[0]["type"] == "string_too_long"
        raise shapes.invalid("INVALID_STRING_MAX_LENGTH" if too_long else "INVALID_PARAMETER_SYNTAX") from None
    amount = asked.amount
    return Wanted(
        capture_id=call.id,
        amount=None if amount is None else shapes.smallest_units(amount.value, amount.currency_code),
        currency=None if amount is None else amount.currency_code,
        custom_id=asked.custom_id,
        invoice_id=asked.invoice_id,
        note=asked.note_to_payer,
    )


def _twist(fault: Fault | None) -> Twist:
    match fault.name if fault is not None else "":
        case "pending":
            return Twist(status="PENDING")
        case "pending_then_failed":
            return Twist(status="PENDING", fails_on_look=True)
        case "late_visible" if fault is not None:
            return Twist(hidden_us=fault.microseconds)
        case _:
            return ORDINARY


def _refusal(call: Call, fault: Fault) -> Answer:
    """The answer of a fault with which nothing happens (for a dropped connection it is never sent)."""
    match fault.name:
        case "429":
            return shapes.too_many_requests(int(fault.argument.partition(":")[0])).answer
        case "redirect_self":
            return Answer(307, b"", {"Location": call.path})
        case "redirect_other":
            return Answer(307, b"", {"Location": hostile.ELSEWHERE})
        case "in_use":
            return shapes.in_progress().answer
        case "already_refunded":
            return shapes.unprocessable("CAPTURE_FULLY_REFUNDED").answer
        case _:
            return shapes.server_error(503).answer
