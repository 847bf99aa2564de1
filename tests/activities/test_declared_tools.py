"""A tool without code goes through the whole life of a call: over a real ledger and a bank on a real socket."""

import secrets
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from pydantic import SecretStr

from activities.patience import Patience
from gateways.client import new_client
from gateways.credentials import Credential, OneCredential
from gateways.egress import Egress
from gateways.registry import Endpoint, remote_system
from policy.in_force import Fixed
from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
from schemas.calls import Progress
from schemas.codes import Code
from tests.activities.desk import Desk
from tests.bank import KEY, BankAt, bank_process
from tests.docs.how_to import write_tool
from tests.service import Service, systems_of
from tools.catalog import Catalog

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture(scope="session")
def bank() -> Iterator[BankAt]:
    with bank_process() as running:
        yield running


@dataclass(frozen=True)
class Payments:
    """`send_money`, as the how-to page has it, in front of a bank."""

    desk: Desk
    bank: BankAt

    async def call(self, customer_id: str, recipient: str, amount: int = 4_999, **more: Any) -> Progress:
        run = await self.desk.service.open_run(customer_id, tools=("send_money",))
        arguments = {
            "recipient": recipient,
            "amount_cents": amount,
            "currency": "EUR",
            "date": "2026-12-24",
            "idempotency_key": secrets.token_hex(16),
        }
        return await self.desk.admit(*await self.desk.service.input_for(run.run_id, arguments | more, "send_money"))

    async def pay(self, amount: int = 4_999, **more: Any) -> tuple[str, Progress]:
        """(the recipient, how far a payment to them got)."""
        customer_id = await self.bank.customer()
        recipient = await self.bank.recipient(customer_id)
        return recipient, await self.call(customer_id, recipient, amount, **more)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def payments(wired: Service, bank: BankAt, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Payments]:
    folder = write_tool(tmp_path_factory.mktemp("our_tools"))
    catalog = Catalog.load(folder.parent)
    async with new_client() as client:
        egress = Egress({"bank": (bank.url,)}, private=["bank"])
        held = OneCredential(Credential("cred_bank", SecretStr(KEY)))
        remote = remote_system("bank", Endpoint(bank.url, credentials=held), client, egress)
        service = wired.elsewhere(
            catalog=catalog,
            policies=Fixed(load_checked(DEFAULT_POLICY, catalog)),
            systems=replace(systems_of(wired.services), remotes={"bank": remote}),
            patience=Patience(absence=timedelta(0), review=timedelta(hours=1)),
        )
        yield Payments(Desk(service), bank)


async def test_a_payment_is_made_once_and_confirmed(payments: Payments) -> None:
    recipient, progress = await payments.pay(reference="my words")
    assert (progress.next, progress.code) == ("settled", Code.OK)
    (made,) = await payments.bank.payments(recipient)
    record = await payments.desk.record(progress.request_id)
    effect, result = record.details.effect, record.details.result
    assert effect is not None
    assert result == {"payment_id": made["payment_id"], "amount_cents": 4_999, "currency": "EUR", "state": "accepted"}
    assert (record.remote_id, made["metadata"]) == (made["payment_id"], {"counterseal_operation": effect.operation_id})
    assert (made["execution_date"], made["reference"]) == ("2026-12-24", "my words")
    assert record.reply().message == f"Done: sent 49.99 EUR to {recipient}."


async def test_what_the_customer_does_not_have_is_the_same_as_what_there_is_not(payments: Payments) -> None:
    customer_id, other = await payments.bank.customer(), await payments.bank.customer()
    theirs = await payments.bank.recipient(other)
    replies: list[str] = []
    for recipient in (theirs, "rcp_000000000000"):
        progress = await payments.call(customer_id, recipient)
        reply = (await payments.desk.record(progress.request_id)).reply()
        assert (reply.code, reply.invalid_fields) == (Code.INVALID_INPUT, ("recipient",))
        replies.append(reply.message)
    assert replies[0] == replies[1]
    assert await payments.bank.payments(theirs) == []


async def test_a_large_payment_and_a_new_recipient_wait_for_a_person(payments: Payments) -> None:
    recipient, large = await payments.pay(50_001)
    customer_id = await payments.bank.customer()
    fresh = await payments.bank.recipient(customer_id, payments=0)
    new = await payments.call(customer_id, fresh, reference="my words")
    for progress, rule in ((large, "over_threshold"), (new, "new_recipient")):
        record = await payments.desk.record(progress.request_id)
        assert (progress.next, record.details.decision and record.details.decision.rule) == ("hold", rule)
    assert await payments.bank.payments(recipient) == []

    approval = await payments.desk.service.approval(await payments.desk.record(new.request_id))
    assert approval.title == f"Send 49.99 EUR to the recipient {fresh} on 2026-12-24"
    assert (approval.untrusted, approval.amount, approval.currency) == ({"reference": "my words"}, 4_999, "EUR")
    known: Any = approval.facts["recipient"]
    assert known["payments"] == 0
    ended = await payments.desk.approved(approval)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert len(await payments.bank.payments(fresh)) == 1


async def test_the_money_of_an_account_is_not_spent_twice(payments: Payments) -> None:
    customer_id = await payments.bank.customer(balance=5_000)
    recipient = await payments.bank.recipient(customer_id)
    progress = await payments.call(customer_id, recipient, 5_001)
    reply = (await payments.desk.record(progress.request_id)).reply()
    assert (reply.code, reply.allowed) == (Code.INVALID_STATE, {"max_amount_cents": 5_000})
    assert "at most 5000 is left" in reply.message


@pytest.mark.parametrize("fault", ["pay_then_503", "other_amount"])
async def test_a_lost_or_false_answer_is_looked_up_and_not_believed(payments: Payments, fault: str) -> None:
    await payments.bank.fault(fault)
    recipient, sent = await payments.pay()
    assert (sent.next, sent.code) == ("inspect", Code.OUTCOME_UNKNOWN)
    found = await payments.desk.inspect(sent.request_id)
    assert (found.next, found.code) == ("settled", Code.OK)
    assert len(await payments.bank.payments(recipient)) == 1


async def test_what_never_happened_is_sent_again_under_the_same_key(payments: Payments) -> None:
    await payments.bank.fault("503")
    recipient, sent = await payments.pay()
    assert (sent.next, sent.code) == ("inspect", Code.OUTCOME_UNKNOWN)
    looked = await payments.desk.inspect(sent.request_id)
    assert looked.next == "resend"
    ended = await payments.desk.resend(sent.request_id)
    assert (ended.next, ended.code) == ("settled", Code.OK)
    assert len(await payments.bank.payments(recipient)) == 1


async def test_what_a_person_says_happened_has_a_result(payments: Payments) -> None:
    _, sent = await payments.pay()
    record = await payments.desk.record(sent.request_id)
    _, tool = payments.desk.effects.tool_of(record)
    assert record.details.effect is not None
    result = tool.presumed(record.details.effect, "pmt_by_hand")
    assert result == {"payment_id": "pmt_by_hand", "amount_cents": 4_999, "currency": "EUR", "state": "sent"}
    tool.result_model.model_validate(result)
