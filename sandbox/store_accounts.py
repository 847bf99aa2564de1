"""The store's endpoints for accounts, credits, parcels and refund drafts."""

from typing import Annotated

from pydantic import Field, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox import accounts, orders
from sandbox.models import MAX_AMOUNT, Currency, Identifier, Shipment, describe
from sandbox.store_http import Answered, Change, Endpoints, error, not_found, refusal, unauthorized

Cents = Annotated[int, Field(ge=1, le=MAX_AMOUNT)]


class NewCredit(Change):
    amount_cents: Cents
    currency: Currency


class NewDraft(Change):
    order_id: Identifier
    payment_id: Identifier | None = None
    amount_cents: Cents
    currency: Currency


class Accounts(Endpoints):
    """What the store knows beside orders."""

    def routes(self) -> list[Route]:
        return [
            Route("/customers/{customer_id}/account", self.get_account),
            Route("/customers/{customer_id}/credits", self.credits, methods=["GET", "POST"]),
            Route("/shipments/{tracking_id}", self.get_shipment),
            Route("/refund_drafts", self.drafts, methods=["GET", "POST"]),
            Route("/refund_drafts/{draft_id}", self.get_draft),
            Route("/_shipments/{tracking_id}", self.control_shipment, methods=["GET", "PUT"]),
        ]

    async def get_account(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        account = accounts.get_account(self._state, request.path_params["customer_id"])
        return not_found("customer") if account is None else JSONResponse(account)

    async def credits(self, request: Request) -> Response:
        customer_id = request.path_params["customer_id"]
        if request.method == "POST":
            return await self.once(request, NewCredit, lambda credit: self._credit(customer_id, credit))
        if not self.authorized(request):
            return unauthorized()
        if orders.get_customer(self._state, customer_id) is None:
            return not_found("customer")
        found = accounts.list_credits(self._state, customer_id, request.query_params.get("operation_id"))
        return JSONResponse({"credits": found})

    def _credit(self, customer_id: str, credit: NewCredit) -> Answered:
        account = accounts.get_account(self._state, customer_id)
        if account is None:
            return refusal(404, "not_found", "no such customer")
        if credit.currency != account["currency"]:
            return refusal(422, "invalid_request", "currency: is not the account's")
        return 200, accounts.add_credit(
            self._state, customer_id, credit.amount_cents, credit.reason, credit.operation_id
        )

    async def get_shipment(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        shipment = accounts.get_shipment(self._state, request.path_params["tracking_id"])
        return not_found("shipment") if shipment is None else JSONResponse(shipment)

    async def drafts(self, request: Request) -> Response:
        if request.method == "POST":
            return await self.once(request, NewDraft, self._draft)
        if not self.authorized(request):
            return unauthorized()
        operation_id = request.query_params.get("operation_id")
        if not operation_id:
            return error(400, "invalid_request", "operation_id: is required")
        return JSONResponse({"refund_drafts": accounts.list_drafts(self._state, operation_id)})

    def _draft(self, draft: NewDraft) -> Answered:
        order = orders.get_order_line(self._state, draft.order_id)
        if order is None:
            return refusal(404, "not_found", "no such order")
        wanted = draft.model_dump(include={"payment_id", "amount_cents", "currency", "reason"})
        return 200, accounts.add_draft(self._state, order, wanted, draft.operation_id)

    async def get_draft(self, request: Request) -> Response:
        if not self.authorized(request):
            return unauthorized()
        draft = accounts.get_draft(self._state, request.path_params["draft_id"])
        return not_found("refund draft") if draft is None else JSONResponse(draft)

    async def control_shipment(self, request: Request) -> Response:
        tracking_id = request.path_params["tracking_id"]
        if request.method == "PUT":
            try:
                shipment = Shipment.model_validate_json(await request.body())
            except ValidationError as problem:
                return error(422, "invalid_request", describe(problem))
            if shipment.tracking_id != tracking_id:
                return error(422, "invalid_request", "tracking_id: must be the one in the path")
            accounts.put_shipment(self._state, shipment)
        found = accounts.get_shipment(self._state, tracking_id)
        return not_found("shipment") if found is None else JSONResponse(found)
