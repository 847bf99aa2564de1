"""The order store: a plain JSON API behind a bearer key, and the control surface that lays records into it."""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox import orders
from sandbox.models import Address, Customer, Order, describe
from sandbox.orders import OperationKind, OrderConflictError
from sandbox.store_http import Answered, Change, Endpoints, error, not_found, refusal, unauthorized

DEFAULT_LIMIT, MAX_LIMIT = 20, 100


# The state that a change needs; none for what any state allows.
_NEEDED: dict[OperationKind, str | None] = {
    "cancel": "open",
    "reinstate": "cancelled",
    "shipping_address": "open",
    "reset": None,
}


class AddressChange(Change):
    shipping_address: Address


class Store(Endpoints):
    """The shop's orders and customers."""

    def routes(self) -> list[Route]:
        return [
            Route("/orders", self.list_orders),
            Route("/orders/{order_id}", self.get_order),
            Route("/orders/{order_id}/cancel", self.cancel, methods=["POST"]),
            Route("/orders/{order_id}/reinstate", self.reinstate, methods=["POST"]),
            Route("/orders/{order_id}/reset", self.reset, methods=["POST"]),
            Route("/orders/{order_id}/shipping_address", self.change_address, methods=["PUT"]),
            Route("/customers/{customer_id}", self.get_customer),
            Route("/_orders/{order_id}", self.control_order, methods=["GET", "PUT"]),
            Route("/_customers/{customer_id}", self.control_customer, methods=["GET", "PUT"]),
        ]

    async def get_order(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        order = orders.get_order(self._state, request.path_params["order_id"])
        if order is None:
            return not_found("order")
        expand = request.query_params.get("expand")
        if expand == "customer":
            order["customer"] = orders.get_customer(self._state, order["customer_id"])
        elif expand is not None:
            return error(400, "invalid_request", "expand: only 'customer' can be embedded")
        return JSONResponse(order)

    async def list_orders(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        customer_id = request.query_params.get("customer_id")
        limit = request.query_params.get("limit", str(DEFAULT_LIMIT))
        if not customer_id:
            return error(400, "invalid_request", "customer_id: is required")
        if not (limit.isascii() and limit.isdigit() and 1 <= int(limit[:9]) <= MAX_LIMIT):
            return error(400, "invalid_request", f"limit: must be 1 to {MAX_LIMIT}")
        found, total = orders.list_orders(self._state, customer_id, int(limit))
        return JSONResponse({"orders": found, "total": total})

    async def get_customer(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        customer = orders.get_customer(self._state, request.path_params["customer_id"])
        return not_found("customer") if customer is None else JSONResponse(customer)

    async def cancel(self, request: Request) -> Response:
        return await self._write(request, "cancel", Change)

    async def reinstate(self, request: Request) -> Response:
        return await self._write(request, "reinstate", Change)

    async def reset(self, request: Request) -> Response:
        return await self._write(request, "reset", Change)

    async def change_address(self, request: Request) -> Response:
        return await self._write(request, "shipping_address", AddressChange)

    async def _write(self, request: Request, kind: OperationKind, model: type[Change]) -> Response:
        order_id = request.path_params["order_id"]
        return await self.once(request, model, lambda change: self._execute(order_id, kind, change))

    def _execute(self, order_id: str, kind: OperationKind, change: Change) -> Answered:
        order = orders.get_order_line(self._state, order_id)
        if order is None:
            return refusal(404, "not_found", "no such order")
        needed = _NEEDED[kind]
        if needed is not None and order["status"] != needed:
            message = f"{kind} needs an order that is {needed}"
            return refusal(409, "invalid_state", message, status=order["status"])
        fields: dict[str, str | Address] = {}
        if kind == "reset":
            return 200, orders.reset_order(self._state, order_id, change.operation_id)
        if isinstance(change, AddressChange):
            fields["shipping_address"] = change.shipping_address
        else:
            fields["status"] = "cancelled" if kind == "cancel" else "open"
        return 200, orders.change_order(self._state, order_id, kind, change.operation_id, fields)

    async def control_order(self, request: Request) -> Response:
        order_id = request.path_params["order_id"]
        if request.method == "PUT":
            try:
                order = Order.model_validate_json(await request.body())
            except ValidationError as problem:
                return error(422, "invalid_request", describe(problem))
            if order.order_id != order_id:
                return error(422, "invalid_request", "order_id: must be the one in the path")
            try:
                with self._state.transaction():
                    orders.put_order(self._state, order)
            except OrderConflictError as problem:
                return error(409, "conflict", str(problem))
        line = orders.get_order_line(self._state, order_id)
        return not_found("order") if line is None else JSONResponse(line)

    async def control_customer(self, request: Request) -> Response:
        customer_id = request.path_params["customer_id"]
        if request.method == "PUT":
            try:
                customer = Customer.model_validate_json(await request.body())
            except ValidationError as problem:
                return error(422, "invalid_request", describe(problem))
            if customer.customer_id != customer_id:
                return error(422, "invalid_request", "customer_id: must be the one in the path")
            orders.put_customer(self._state, customer)
        line = orders.get_customer(self._state, customer_id)
        return not_found("customer") if line is None else JSONResponse(line)
