"""What peers have in common that can only be looked into by the API that they mock."""

from typing import Any

from tests.gateways.peers.peer import Made, Peer


class StripeApiPeer(Peer):
    """Amounts are as Stripe has them, which for the currencies of these tests is as ISO 4217 does."""

    key = "sk_test_key_of_the_tests"
    unknown_payment = "ch_unknown"

    async def made(self, payment_id: str) -> list[Made]:
        name = "payment_intent" if payment_id.startswith("pi_") else "charge"
        page = await self.get(f"/v1/refunds?{name}={payment_id}&limit=1000")
        return [
            Made(
                each["id"],
                each["amount"],
                each["currency"].upper(),
                each["metadata"].get("counterseal_operation"),
                each["status"],
            )
            for each in page["data"]
        ]

    async def sends(self, idempotency_key: str) -> int:
        return (await self.get("/_sends")).get(idempotency_key, 0)

    async def refund_by_hand(self, payment_id: str, amount: int) -> None:
        await self.post("/v1/refunds", charge=payment_id, amount=str(amount))

    async def get(self, path: str) -> Any:
        answer = await self.client.get(self.url + path, headers=self._authorization)
        return answer.raise_for_status().json()

    async def post(self, path: str, **form: str) -> Any:
        answer = await self.client.post(self.url + path, data=form, headers=self._authorization)
        return answer.raise_for_status().json()

    @property
    def _authorization(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.key}"}
