"""The payment gateway: Stripe's refund endpoints, with a fault script between the request and the answer.

A request passes, in Stripe's order: authentication, the rate limiter (here: the faults with which nothing happens), the
check of its parameters, the idempotency layer, the endpoint. Everything up to the record of it is one transaction,
committed before the first byte of the answer.
"""

import base64
import binascii
import hmac
from dataclasses import dataclass, replace
from urllib.parse import parse_qsl

from starlette.requests import Request
from starlette.responses import Response

from sandbox import faults, hostile, idempotency, params, refunds, stripe_shapes
from sandbox.faults import Fault, Operation
from sandbox.idempotency import Stored, Verdict
from sandbox.refunds import ORDINARY, Twist
from sandbox.state import State
from sandbox.stripe_shapes import Answer, StripeError, json_answer
from sandbox.webhooks import queue
from sandbox.webhooks.courier import Courier
from sandbox.webhooks.events import Cause

FORM = "application/x-www-form-urlencoded"
SCOPE = "gateway"
_WITHOUT_ANSWER = {"commit_then_drop", "late_visible", "drop_before_read", "reset"}


@dataclass(frozen=True)
class Call:
    """A request on `/v1`: what it is, whom it concerns, its parameters still as text."""

    method: str
    path: str
    query: str
    parameters: str
    content_type: str
    key: str | None
    operation: Operation | None
    resource: str
    id: str


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


class Gateway:
    """The `/v1` endpoints on a state, for the bearer of `key`."""

    def __init__(self, state: State, key: str, courier: Courier) -> None:
        self._state = state
        self._courier = courier
        self._key = key.encode()
        self._in_flight: set[str] = set()

    async def v1(self, request: Request) -> Response:
        call = _call(request, await request.body())
        request_id = stripe_shapes.new_id("req")
        with self._state.transaction():
            last_event = queue.last_seq(self._state)
            if self._authorized(request.headers.get("authorization", "")):
                outcome = self._process(call, request_id)
            else:
                outcome = Outcome("unauthorized", stripe_shapes.unauthorized().answer)
            self._state.db.execute(
                "INSERT INTO requests (method, path, operation, idempotency_key, done, status, at_us)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (call.method, call.path, call.operation, call.key, outcome.done, outcome.status, self._state.now_us()),
            )
            eventful = queue.last_seq(self._state) > last_event
            after_webhooks = eventful and outcome.what == "created" and queue.take_before_answer(self._state)
        if eventful:
            self._courier.wake()
        if after_webhooks:
            await self._courier.all_attempted(last_event)
        headers = {"Request-Id": request_id}
        if call.key is not None:
            headers["Idempotency-Key"] = call.key
        return self._deliver(call, outcome, headers)

    def _authorized(self, header: str) -> bool:
        scheme, _, value = header.partition(" ")
        given = value.strip().encode()
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given, validate=True).partition(b":")[0]
            except binascii.Error:
                return False
        elif scheme.lower() != "bearer":
            return False
        return hmac.compare_digest(given, self._key)

    def _process(self, call: Call, request_id: str) -> Outcome:
        fault = None
        if call.operation is not None:
            fault = faults.take(self._state, call.operation, lambda: self._payment_id(call))
        if fault is not None and not fault.executes:
            return Outcome("nothing", _refusal(call, fault), fault)
        try:
            if call.operation == "refund":
                what, answer = self._refund(call, request_id, fault)
            else:
                what, answer = "read", self._read(call)
        except StripeError as error:
            what, answer = "refused", error.answer
        if fault is not None and fault.name == "commit_then_500":
            answer = stripe_shapes.server_error(500).answer
        return Outcome(what, answer, fault)

    def _payment_id(self, call: Call) -> str | None:
        if call.operation != "get":
            return params.payment_of(dict(parse_qsl(call.parameters)))
        return refunds.payment_of_refund(self._state, call.id) if call.resource == "refunds" else call.id

    def _refund(self, call: Call, request_id: str, fault: Fault | None) -> tuple[str, Answer]:
        if call.content_type not in ("", FORM):
            raise StripeError(400, f"Invalid request (check that your POST content type is {FORM}).")
        values = params.parse_form(call.parameters)
        wanted = params.refund_params(values)
        if call.key is None:
            return self._create(wanted, Cause(request_id), fault)
        if not 1 <= len(call.key) <= 255:
            raise StripeError(400, "Idempotency keys may be at most 255 characters and not empty.")
        print_ = idempotency.fingerprint(call.method, call.path, values)
        stored = idempotency.find(self._state, SCOPE, call.key)
        verdict = idempotency.judge(stored, print_, self._state.now_us(), in_flight=call.key in self._in_flight)
        if verdict is Verdict.IN_USE:
            raise stripe_shapes.key_in_use(call.key)
        if verdict is Verdict.MISMATCH:
            raise stripe_shapes.key_mismatch(call.key)
        if verdict is Verdict.REPLAY and stored is not None:
            headers = {"Idempotent-Replayed": "true", "Original-Request": stored.request_id}
            return "replayed", Answer(stored.status, stored.body, headers)
        what, answer = self._create(wanted, Cause(request_id, call.key), fault)
        kept = Stored(print_, answer.status, answer.body, request_id, self._state.now_us())
        idempotency.keep(self._state, SCOPE, call.key, kept)
        return what, answer

    def _create(self, wanted: params.RefundParams, cause: Cause, fault: Fault | None) -> tuple[str, Answer]:
        """Executes. Its answer is the one that the idempotency layer keeps, a 500 included."""
        try:
            what, answer = "created", json_answer(refunds.create(self._state, wanted, cause, _twist(fault)))
        except StripeError as error:
            what, answer = "refused", error.answer
        if fault is not None and fault.name == "commit_then_500":
            answer = stripe_shapes.server_error(500).answer
        return what, answer

    def _read(self, call: Call) -> Answer:
        if call.operation is None:
            raise StripeError(404, f"Unrecognized request URL ({call.method}: {call.path}).")
        values = params.parse_form(call.query)
        if call.operation == "list":
            return json_answer(refunds.list_refunds(self._state, params.list_params(values)))
        params.no_params(values)
        if call.resource == "refunds":
            return json_answer(refunds.get_refund(self._state, call.id))
        if call.resource == "charges":
            return json_answer(refunds.get_charge(self._state, call.id))
        return json_answer(refunds.get_payment_intent(self._state, call.id))

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
                return hostile.Plain(replace(answer, body=hostile.with_duplicate_keys(answer.body)), headers)
            case "wrong_amount":
                return hostile.Plain(replace(answer, body=hostile.with_wrong_amount(answer.body)), headers)
            case "wrong_id":
                return hostile.Plain(replace(answer, body=hostile.with_wrong_id(answer.body)), headers)
            case _:
                return hostile.Plain(answer, headers)

    def _delayed(self, call: Call, response: Response, seconds: float) -> Response:
        """Until the delay is over the key counts as in use: to a caller the request is still being executed."""
        key = call.key if call.operation == "refund" else None
        if key is None or key in self._in_flight:
            return hostile.Delayed(response, seconds, lambda: None)
        self._in_flight.add(key)
        return hostile.Delayed(response, seconds, lambda: self._in_flight.discard(key))


def _call(request: Request, body: bytes) -> Call:
    method, path = request.method, request.url.path
    match (method, path.strip("/").split("/")):
        case ("POST", ["v1", "refunds"]):
            operation, resource, id_ = "refund", "refunds", ""
        case ("GET", ["v1", "refunds"]):
            operation, resource, id_ = "list", "refunds", ""
        case ("GET", ["v1", ("refunds" | "charges" | "payment_intents") as resource, id_]):
            operation = "get"
        case _:
            operation, resource, id_ = None, "", ""
    return Call(
        method=method,
        path=path,
        query=request.url.query,
        parameters=body.decode("utf-8", "replace") if method == "POST" else request.url.query,
        content_type=request.headers.get("content-type", "").partition(";")[0].strip().lower(),
        key=request.headers.get("idempotency-key"),
        operation=operation,
        resource=resource,
        id=id_,
    )


def _twist(fault: Fault | None) -> Twist:
    match fault.name if fault is not None else "":
        case "pending":
            return Twist(status="pending")
        case "pending_then_failed":
            return Twist(status="pending", fails_on_look=True)
        case "late_visible" if fault is not None:
            return Twist(hidden_us=fault.microseconds)
        case _:
            return ORDINARY


def _refusal(call: Call, fault: Fault) -> Answer:
    """The answer of a fault with which nothing happens (for a dropped connection it is never sent)."""
    match fault.name:
        case "429":
            seconds, _, code = fault.argument.partition(":")
            return stripe_shapes.too_many_requests(code or "rate_limit", int(seconds)).answer
        case "redirect_self":
            return Answer(307, b"", {"Location": f"{call.path}?{call.query}" if call.query else call.path})
        case "redirect_other":
            return Answer(307, b"", {"Location": hostile.ELSEWHERE})
        case "in_use":
            return stripe_shapes.key_in_use(call.key or "").answer
        case "already_refunded":
            return stripe_shapes.already_refunded(params.payment_of(dict(parse_qsl(call.parameters))) or "").answer
        case _:
            return stripe_shapes.server_error(503).answer
