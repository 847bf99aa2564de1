"""Workflows and activities of the plain forms: one call to the gateway, one audit row, and nothing else.

No limits, no policy, no approval form, no encryption, no traces, no look-up of lost answers.
"""

from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    import asyncpg
    import httpx

_LIMIT = timedelta(seconds=30)
_ONCE = RetryPolicy(maximum_attempts=1)
SCHEMA = "CREATE TABLE IF NOT EXISTS audit (at timestamptz DEFAULT now(), key text PRIMARY KEY, refund text NOT NULL)"


@dataclass(frozen=True)
class Refund:
    """A refund of `amount` minor units of a payment at the gateway."""

    payment_id: str
    amount: int
    key: str


class Payments:
    """The side effects."""

    def __init__(self, gateway: httpx.AsyncClient, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._gateway = gateway
        self._pool = pool

    @activity.defn
    async def pay(self, refund: Refund) -> str:
        """The id of the refund at the gateway."""
        answer = await self._gateway.post(
            "/v1/refunds",
            data={
                "payment_intent": refund.payment_id,
                "amount": str(refund.amount),
                "metadata[counterseal_operation]": refund.key,
            },
            headers={"Idempotency-Key": refund.key},
        )
        answer.raise_for_status()
        return answer.json()["id"]

    @activity.defn
    async def audit(self, refund: Refund, refund_id: str) -> None:
        await self._pool.execute("INSERT INTO audit (key, refund) VALUES ($1, $2)", refund.key, refund_id)

    @activity.defn
    async def pay_and_audit(self, refund: Refund) -> str:
        refund_id = await self.pay(refund)
        await self.audit(refund, refund_id)
        return refund_id


@workflow.defn
class Written:
    """As people write it: two regular activities."""

    @workflow.run
    async def run(self, refund: Refund) -> str:
        refund_id = await workflow.execute_activity_method(
            Payments.pay, refund, start_to_close_timeout=_LIMIT, retry_policy=_ONCE
        )
        await workflow.execute_activity_method(Payments.audit, args=[refund, refund_id], start_to_close_timeout=_LIMIT)
        return refund_id


@workflow.defn
class Fastest:
    """The fewest events: all that is done is one local activity of the first workflow task."""

    @workflow.run
    async def run(self, refund: Refund) -> str:
        return await workflow.execute_local_activity_method(
            Payments.pay_and_audit, refund, start_to_close_timeout=_LIMIT, retry_policy=_ONCE
        )


@workflow.defn
class Approved:
    """Waits for a person's word, and pays."""

    def __init__(self) -> None:
        self._approved = False

    @workflow.run
    async def run(self, refund: Refund) -> str:
        await workflow.wait_condition(lambda: self._approved)
        return await workflow.execute_activity_method(
            Payments.pay, refund, start_to_close_timeout=_LIMIT, retry_policy=_ONCE
        )

    @workflow.signal
    def approve(self) -> None:
        self._approved = True
