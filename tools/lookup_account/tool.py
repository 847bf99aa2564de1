"""The customer's account, without who they are."""

from datetime import datetime

from gateways.protocols import Systems, SystemUnavailable
from schemas.base import Model
from schemas.calls import Binding
from schemas.money import Currency, Minor
from tools.protocol import Arguments, ReadTool, Refusal


class LookupAccountArguments(Arguments):
    """The run says whose account it is."""


class LookupAccountResult(Model):
    """`credit_cents` is the store credit that is left, in `currency`."""

    since: datetime | None = None
    tier: str
    currency: Currency
    credit_cents: Minor
    open_orders: int


class LookupAccount(ReadTool[LookupAccountArguments, LookupAccountResult]):
    name = "lookup_account"
    arguments_model = LookupAccountArguments
    result_model = LookupAccountResult

    async def read(
        self, arguments: LookupAccountArguments, binding: Binding, systems: Systems
    ) -> LookupAccountResult | Refusal:
        account = await systems.orders.account(binding.customer_id)
        if account is None:
            # The run was opened for somebody whom the shop does not know.
            raise SystemUnavailable("orders", "customer_missing")
        return LookupAccountResult(
            since=account.since,
            tier=account.tier,
            currency=account.currency,
            credit_cents=account.credit_cents,
            open_orders=account.open_orders,
        )

    def is_empty(self, result: LookupAccountResult) -> bool:
        return False

    def done(self, arguments: LookupAccountArguments, result: LookupAccountResult | None) -> str:
        return "how this customer stands with the shop"


TOOL = LookupAccount()
