"""The order store: a plain JSON API behind a bearer key, and the control surface that lays records into it."""

import hmac
import json
from typing import Annotated, Any

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox import idempotency, orders, stripe_shapes
from sandbox.idempotency import Stored, Verdict
from sandbox.models import Address, Customer, Line, Order, describe
from sandbox.orders import OperationKind, OrderConflictError
from sandbox.state import State

SCOPE = "store"
OPERATION_METADATA = "counterseal_operation"
DEFAULT_LIMIT, MAX_LIMIT = 20, 100
Text = Annotated[str, StringConstraints(max_length=500)]


class Change(Line):
    """The body of a write without details."""

    reason: Text | None = None
    metadata: dict[str, Text] = Field(default_factory=dict[str, Text])


class AddressChange(Change):
    shipping_address: Address


class Store:
    """The shop's endpoints on a state, for the bearer of `key`."""

    def __init__(self, state: State, key: str) -> None:
        self._state = state
        self._authorization = f"Bearer {key}".encode()

    def routes(self) -> list[Route]:
        return [
            Route("/orders", self.list_orders),
            Route("/orders/{order_id}", self.get_order),
            Route("/orders/{order_id}/cancel", self.cancel, methods=["POST"]),
            Route("/orders/{order_id}/reinstate", self.reinstate, methods=["POST"]),
            Route("/orders/{order_id}/shipping_address", self.change_address, methods=["PUT"]),
            Route("/customers/{customer_id}", self.get_customer),
            Route("/_orders/{order_id}", self.control_order, methods=["GET", "PUT"]),
            Route("/_customers/{customer_id}", self.control_customer, methods=["GET", "PUT"]),
        ]

    async def get_order(self, request: Request) -> Response:
        if not self._authorized(request):
            return _unauthorized()
        order = orders.get_order(self._state, request.path_params["order_id"])
        if order is None:
            return _not_found("order")
        expand = request.query_params.get("expand")
        if expand == "customer":
            order["customer"] = orders.get_customer(self._state, order["customer_id"])
        elif expand is not None:
            return _error(400, "invalid_request", "expand: only 'customer' can be embedded")
        return JSONResponse(order)

    async def list_orders(self, request: Request) -> Response:
        if not self._authorized(request):
            return _unauthorized()
        customer_id = request.query_params.get("customer_id")
        limit = request.query_params.get("limit", str(DEFAULT_LIMIT))
        if not customer_id:
            return _error(400, "invalid_request", "customer_id: is required")
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_LIMIT):
            return _error(400, "invalid_request", f"limit: must be 1 to {MAX_LIMIT}")
        found, total = orders.list_orders(self._state, customer_id, int(limit))
        return JSONResponse({"orders": found, "total": total})

    async def get_customer(self, request: Request) -> Response:
        if not self._authorized(request):
            return _unauthorized()
        customer = orders.get_customer(self._state, request.path_params["customer_id"])
        return _not_found("customer") if customer is None else JSONResponse(customer)

    async def cancel(self, request: Request) -> Response:
        return await self._write(request, "cancel", Change)

    async def reinstate(self, request: Request) -> Response:
        return await self._write(request, "reinstate", Change)

    async def change_address(self, request: Request) -> Response:
        return await self._write(request, "shipping_address", AddressChange)

    async def _write(self, request: Request, kind: OperationKind, model: type[Change]) -> Response:
        """One write: checked, then executed once per idempotency key; the first answer is given again afterwards."""
        body = await request.body()
        if not self._authorized(request):
            return _unauthorized()
        key = request.headers.get("idempotency-key", "")
        if not 1 <= len(key) <= 255:
            return _error(400, "idempotency_key_required", "send an Idempotency-Key of 1 to 255 characters")
        try:
            change = model.model_validate_json(body or b"{}")
        except ValidationError as error:
            return _error(422, "invalid_request", describe(error))
        print_ = idempotency.fingerprint(request.method, request.url.path, change.model_dump(mode="json"))
        with self._state.transaction():
            stored = idempotency.find(self._state, SCOPE, key)
            verdict = idempotency.judge(stored, print_, self._state.now_us(), in_flight=False)
            if verdict is Verdict.MISMATCH:
                return _error(409, "idempotency_conflict", "this Idempotency-Key came with another request before")
            if verdict is Verdict.REPLAY and stored is not None:
                return _json(stored.status, stored.body, {"Idempotent-Replayed": "true"})
            status, content = self._execute(request.path_params["order_id"], kind, change)
            answer = json.dumps(content, separators=(",", ":")).encode()
            kept = Stored(print_, status, answer, stripe_shapes.new_id("req"), self._state.now_us())
            idempotency.keep(self._state, SCOPE, key, kept)
        return _json(status, answer)

    def _execute(self, order_id: str, kind: OperationKind, change: Change) -> tuple[int, dict[str, Any]]:
        order = orders.get_order_line(self._state, order_id)
        if order is None:
            return 404, {"error": {"code": "not_found", "message": "no such order"}}
        needed = "cancelled" if kind == "reinstate" else "open"
        if order["status"] != needed:
            message = f"{kind} needs an order that is {needed}"
            return 409, {"error": {"code": "invalid_state", "status": order["status"], "message": message}}
        fields: dict[str, str | Address] = {}
        if isinstance(change, AddressChange):
            fields["shipping_address"] = change.shipping_address
        else:
            fields["status"] = "cancelled" if kind == "cancel" else "open"
        operation_id = change.metadata.get(OPERATION_METADATA)
        return 200, orders.change_order(self._state, order_id, kind, operation_id, fields)

    async def control_order(self, request: Request) -> Response:
        order_id = request.path_params["order_id"]
        if request.method == "PUT":
            try:
                order = Order.model_validate_json(await request.body())
            except ValidationError as error:
                return _error(422, "invalid_request", describe(error))
            if order.order_id != order_id:
                return _error(422, "invalid_request", "order_id: must be the one in the path")
            try:
                with self._state.transaction():
                    orders.put_order(self._state, order)
            except OrderConflictError as error:
                return _error(409, "conflict", str(error))
        line = orders.get_order_line(self._state, order_id)
        return _not_found("order") if line is None else JSONResponse(line)

    async def control_customer(self, request: Request) -> Response:
        customer_id = request.path_params["customer_id"]
        if request.method == "PUT":
            try:
                customer = Customer.model_validate_json(await request.body())
            except ValidationError as error:
                return _error(422, "invalid_request", describe(error))
            if customer.customer_id != customer_id:
                return _error(422, "invalid_request", "customer_id: must be the one in the path")
            orders.put_customer(self._state, customer)
        line = orders.get_customer(self._state, customer_id)
        return _not_found("customer") if line is None else JSONResponse(line)

    def _authorized(self, request: Request) -> bool:
        return hmac.compare_digest(request.headers.get("authorization", "").encode(), self._authorization)


def _json(status: int, body: bytes, headers: dict[str, str] | None = None) -> Response:
    return Response(body, status, headers, "application/json")


def _error(status: int, code: str, message: str) -> Response:
    return JSONResponse({"error": {"code": code, "message": message}}, status)


def _not_found(what: str) -> Response:
    return _error(404, "not_found", f"no such {what}")


def _unauthorized() -> Response:
    body = {"error": {"code": "unauthorized", "message": "send the store's key as a bearer token"}}
    return JSONResponse(body, 401, {"WWW-Authenticate": "Bearer"})
