"""`counterseal report refunds --reconcile`: a gateway that really refunded, and a ledger that says otherwise."""

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from gateways.client import new_client
from gateways.protocols import PaymentGateway, RefundRequest
from gateways.registry import Endpoint, payment_gateway
from ledger.ledger import Ledger
from ledger.records import CallRecord, Step
from schemas.codes import Code
from schemas.effects import Confirmed, Exchange
from schemas.events import CallSettled, EffectFailed
from schemas.replies import Explanation
from schemas.switches import EVERYONE
from tests import loopback
from tests.api.parked import TARGET, TENANT, confirm, lose_answer, operation_of, park
from tests.cli.conftest import Run
from tests.ledger.test_refund_report import reverse
from tests.service import SANDBOX_KEY, Outside, SandboxUrls, sandbox_process

AMOUNT = 2_500


@pytest.fixture(scope="module")
def sandbox_urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxUrls]:
    with sandbox_process(tmp_path_factory.mktemp("sandbox")) as urls:
        yield urls


@dataclass(frozen=True)
class Shop:
    """A payment of 100.00 USD, the gateway that it was made at, and the ledger whose refunds are of it."""

    gateway: PaymentGateway
    outside: Outside
    ledger: Ledger
    order: dict[str, Any]

    @property
    def payment_id(self) -> str:
        return self.order["payments"][0]["payment_id"]

    async def send(self, operation_id: str, amount: int = AMOUNT) -> Confirmed:
        """A refund at the gateway."""
        request = RefundRequest(
            payment_id=self.payment_id,
            amount=amount,
            currency="USD",
            reason="damaged",
            operation_id=operation_id,
            idempotency_key=secrets.token_hex(16),
        )
        made = await self.gateway.refund(request)
        assert isinstance(made, Confirmed)
        return made

    async def intend(self, amount: int = AMOUNT) -> str:
        """A refund whose answer was lost, in the ledger alone; its call."""
        approval = await park(self.ledger)
        target = {**TARGET, "payment_id": self.payment_id, "amount_cents": amount}
        await lose_answer(self.ledger, approval.request_id, target=target)
        return approval.request_id

    async def refund(self, here: int = AMOUNT, there: int = AMOUNT) -> tuple[str, str]:
        """A refund that both have, of these amounts: its call, and the gateway's id."""
        request_id = await self.intend(here)
        made = await self.send(operation_of(request_id), there)
        await confirm(self.ledger, request_id, at=made.remote_at, remote_id=made.remote_id)
        return request_id, made.remote_id

    async def set_status(self, refund_id: str, status: str) -> None:
        async with loopback.plain_client() as client:
            answer = await client.post(f"{self.outside.urls.gateway}/_refunds/{refund_id}", json={"status": status})
            answer.raise_for_status()

    async def fail(self, request_id: str) -> None:
        """The ledger learned that it was not done."""
        exchange = Exchange(
            system="payments", method="POST", path_template="/v1/refunds", reached="response_received", elapsed_ms=1
        )

        def step(record: CallRecord, now: datetime) -> Step:
            failed = EffectFailed(operation_id=operation_of(request_id), code=Code.REMOTE_REFUSED, exchange=exchange)
            settled = CallSettled(status="failed", code=Code.REMOTE_REFUSED, explanation=Explanation())
            return Step([failed, settled])

        await self.ledger.calls.advance(request_id, step)


@pytest.fixture
async def shop(sandbox_urls: SandboxUrls, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Shop]:
    monkeypatch.setenv("COUNTERSEAL_SANDBOX_GATEWAY_URL", sandbox_urls.gateway)
    monkeypatch.setenv("COUNTERSEAL_PRIVATE_NETWORKS", "payments,orders")
    # As the service has it: from the vault, whatever the settings say.
    monkeypatch.setenv("COUNTERSEAL_SANDBOX_GATEWAY_KEY", "another one")
    await ledger.vault.put("sandbox", SANDBOX_KEY, by="the tests")
    async with new_client() as client, loopback.plain_client() as plain:
        endpoint = Endpoint(sandbox_urls.gateway, SecretStr(SANDBOX_KEY))
        gateway = payment_gateway("sandbox", endpoint, client, loopback.egress(sandbox_urls.gateway))
        outside = Outside(sandbox_urls, plain)
        yield Shop(gateway, outside, ledger, await outside.order(100_000))
        await plain.delete(f"{sandbox_urls.gateway}/_faults")


RECONCILE = ("report", "refunds", "--reconcile", "--tenant", TENANT)


async def test_ledger_and_gateway_agree(run: Run, shop: Shop) -> None:
    made = [await shop.refund() for _ in range(3)]
    back = await shop.refund()
    await shop.set_status(back[1], "failed")
    await reverse(shop.ledger, back[0])
    await shop.intend()
    ran = await run(*RECONCILE, "--json")
    found = ran.json
    strangers = {each["there"][0]["refund_id"] for each in found["differences"]}
    assert strangers.isdisjoint({refund_id for _, refund_id in (*made, back)})
    assert (found["gateway"], found["complete"], found["tolerance_seconds"]) == ("sandbox", True, 600)
    assert found["compared"]["here"] == 5


async def test_every_difference_is_named(run: Run, shop: Shop) -> None:
    await shop.refund()
    missing = await shop.intend()
    await confirm(shop.ledger, missing, remote_id="re_invented")
    fell, fell_id = await shop.refund()
    await shop.set_status(fell_id, "failed")
    back, _ = await shop.refund()
    await reverse(shop.ledger, back)
    lost = await shop.intend()
    await shop.send(operation_of(lost))
    denied = await shop.intend()
    await shop.send(operation_of(denied))
    await shop.fail(denied)
    twice, _ = await shop.refund()
    await shop.send(operation_of(twice))
    less, _ = await shop.refund(here=AMOUNT, there=AMOUNT - 1)
    await shop.send("op_of_nobody")
    await shop.outside.refund_in_dashboard(shop.order, 700)
    ran = await run(*RECONCILE, "--json")
    assert ran.status == 1
    found = ran.json["differences"]
    by_call = {each["request_id"]: each["difference"] for each in found if each["request_id"]}
    assert by_call == {
        missing: "not_there",
        fell: "failed_there",
        back: "stands_there",
        lost: "found_there",
        denied: "done_there",
        twice: "twice",
        less: "amount_differs",
    }
    (unknown,) = [each for each in found if each["operation_id"] == "op_of_nobody"]
    assert unknown["difference"] == "not_here"
    (by_hand,) = [each for each in found if each["there"] and each["there"][0]["amount_minor"] == 700]
    assert (by_hand["difference"], by_hand["operation_id"]) == ("not_ours", None)
    said = (await run(*RECONCILE)).out
    assert f"{missing}: Done by the ledger, and the gateway does not have it (here done 25.00 USD)\n" in said
    assert f"{fell_id} failed 25.00 USD)\n" in said
    assert SANDBOX_KEY not in said


async def test_a_gateway_that_cannot_be_read_is_not_reconciled(run: Run, shop: Shop) -> None:
    async with httpx.AsyncClient() as client:
        script = [{"operation": "list", "do": "503", "times": 1}]
        (await client.post(f"{shop.outside.urls.gateway}/_faults", json=script)).raise_for_status()
    ran = await run(*RECONCILE)
    assert (ran.status, ran.out) == (1, "")
    assert "the payment gateway cannot be read: http 503" in ran.complaint


async def test_a_locked_vault_opens_for_no_command(run: Run, shop: Shop) -> None:
    await shop.ledger.switches.turn_off(EVERYONE, "vault", by="olga", reason="a test")
    ran = await run(*RECONCILE)
    assert (ran.status, ran.out) == (1, "")
    assert "the vault is locked" in ran.complaint


async def test_it_goes_nowhere_but_to_the_gateway(run: Run, shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """The egress guard of the service is this command's, too."""
    monkeypatch.setenv("COUNTERSEAL_PRIVATE_NETWORKS", "orders")
    ran = await run(*RECONCILE)
    assert (ran.status, ran.out) == (1, "")
    assert "egress" in ran.complaint or "COUNTERSEAL_PRIVATE_NETWORKS" in ran.complaint


async def test_it_has_no_groups(run: Run) -> None:
    for more in (("--csv",), ("--by", "tool")):
        ran = await run("report", "refunds", "--reconcile", *more)
        assert ran.status == 2
        assert "--reconcile" in ran.complaint
