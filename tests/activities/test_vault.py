"""The vault as calls meet it: which credential leaves, and that none does while it is locked."""

import asyncio
import base64
import json
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio

from activities.patience import Patience
from gateways.client import new_client
from gateways.credentials import Acting, CredentialUnavailableError, acting
from gateways.protocols import Systems, SystemUnavailable
from ledger.vault import Sealer, Selection, WrongMasterKeyError
from runtime.assembly import activity_services, outside_systems
from runtime.credentials import VaultCredentials
from schemas.calls import Progress
from schemas.codes import Code
from schemas.diagnostics import Diagnostic
from schemas.events import DiagnosticOpened
from schemas.switches import EVERYONE, PERMIT
from tests.activities.desk import Desk
from tests.activities.test_switches import late, off, refund_requests, turn_off, turn_on
from tests.diagnostics.remotes import read_request, response, serving
from tests.loopback import plain_client
from tests.service import SANDBOX_KEY, Service, refund_arguments, systems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

LOCKED = Code.VAULT_LOCKED
WITHDRAWN = "sandbox-key-that-was-withdrawn"
OPENED = DiagnosticOpened(principal="olga", through="page")
AT_ONCE = Patience(absence=timedelta(0), review=timedelta(hours=1))


@pytest.fixture
def tenant() -> str:
    return f"t{secrets.token_hex(6)}"


@pytest_asyncio.fixture(loop_scope="session")
async def vaulted(wired: Service) -> AsyncIterator[Service]:
    """A process that comes with no credential of its own: what it has is in the vault."""
    without = wired.core.settings.model_copy(update={"sandbox_gateway_key": None, "store_key": None})
    names = ("payments", "orders")
    async with new_client() as client:
        selection = Selection(wired.core.ledger.database, Sealer(wired.core.master))
        yield wired.elsewhere(systems=outside_systems(without, selection, client, names))


async def _put(service: Service, tenant: str, system: str = "sandbox", secret: str = SANDBOX_KEY, **more: str) -> str:
    return await service.core.ledger.vault.put(system, secret, by="olga", tenant=tenant, **more)


async def _refund(service: Service, tenant: str, amount: int = 4_000, **order: Any) -> Progress:
    made = await service.outside.order(**order)
    run = await service.open_run(made["customer_id"], tenant=tenant)
    return await Desk(service).admit(*await service.input_for(run.run_id, refund_arguments(made, amount)))


async def _asked(service: Service) -> int:
    """How many requests the gateway received."""
    async with plain_client() as client:
        return len((await client.get(f"{service.outside.urls.gateway}/_requests")).json()["requests"])


async def _told(service: Service, request_id: str) -> list[Diagnostic]:
    return await service.core.ledger.diagnostics.open(request_id, OPENED, tenant=None)


async def test_a_process_without_keys_works_with_those_in_the_vault(vaulted: Service, tenant: str) -> None:
    assert (await _refund(vaulted, tenant)).code is Code.INTERNAL_FAILURE, "there is none for the store"
    await _put(vaulted, tenant, "store")
    assert (await _refund(vaulted, tenant)).code is Code.INTERNAL_FAILURE, "there is none for the gateway"
    await asyncio.sleep(PERMIT.total_seconds())
    record_id = await _put(vaulted, tenant)
    assert (await _refund(vaulted, tenant)).code is Code.OK
    assert (await _refund(vaulted, f"{tenant}x")).code is Code.INTERNAL_FAILURE, "it is another tenant's"
    await vaulted.core.ledger.vault.retire(record_id)
    await asyncio.sleep(PERMIT.total_seconds())
    assert (await _refund(vaulted, tenant)).code is Code.INTERNAL_FAILURE


async def test_what_is_in_the_vault_goes_before_what_came_with_the_environment(wired: Service, tenant: str) -> None:
    record_id = await _put(wired, tenant, secret=WITHDRAWN)
    refused = await _refund(wired, tenant)
    assert refused.code is Code.AUTH_FAILED
    (told,) = await _told(wired, refused.request_id)
    of_payments = [each for each in told.exchanges if each.system == "payments"]
    assert {each.credential_id for each in of_payments} == {record_id}
    assert {each.credential_id for each in told.exchanges if each.system == "orders"} <= {"settings:store_key"}
    assert WITHDRAWN not in told.model_dump_json()
    assert (await _refund(wired, f"{tenant}x")).code is Code.OK, "another tenant's credential is another"


async def test_one_that_is_bound_to_a_tool_serves_no_other(vaulted: Service, tenant: str) -> None:
    await _put(vaulted, tenant, "store", WITHDRAWN)
    await _put(vaulted, tenant, "store", tool="issue_refund")
    await _put(vaulted, tenant)
    assert (await _refund(vaulted, tenant)).code is Code.OK
    order = await vaulted.outside.order()
    run = await vaulted.open_run(order["customer_id"], tenant=tenant)
    read = await Desk(vaulted).admit(*await vaulted.input_for(run.run_id, {}, "lookup_orders"))
    assert read.code is Code.AUTH_FAILED


async def test_a_new_one_is_sent_within_a_second_and_the_one_before_no_more(wired: Service, tenant: str) -> None:
    """Seen at a server that writes down what it is sent; neither process is started anew."""
    sent: list[tuple[float, str]] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            head = (await read_request(reader)).decode("latin-1")
            (line,) = [each for each in head.split("\r\n") if each.lower().startswith("authorization:")]
            sent.append((time.monotonic(), line.partition(":")[2].strip()))
            writer.write(response(b'{"error": {"type": "invalid_request_error"}}', "401 Unauthorized"))
            await writer.drain()

    ledger, rotated = wired.core.ledger, 0.0
    async with serving(handle) as base, new_client() as client:
        settings = wired.core.settings.model_copy(update={"sandbox_gateway_url": base})
        processes = [
            wired.elsewhere(
                systems=outside_systems(
                    settings, Selection(ledger.database, Sealer(wired.core.master)), client, ("payments", "orders")
                )
            )
            for _ in range(2)
        ]
        old = await _put(wired, tenant, secret="the-old-one")
        begun = time.monotonic()
        while (now := time.monotonic()) < begun + PERMIT.total_seconds() + 1:
            if not rotated and now > begun + 0.3:
                await _put(wired, tenant, secret="the-new-one")
                await ledger.vault.retire(old)
                rotated = time.monotonic()
            for each in processes:
                await _read_payment(each, tenant)
    assert {each for _, each in sent} == {"Bearer the-old-one", "Bearer the-new-one"}
    late_ones = [each for at, each in sent if at > rotated + PERMIT.total_seconds() + 0.1]
    assert len(late_ones) > 2
    assert set(late_ones) == {"Bearer the-new-one"}


async def _read_payment(service: Service, tenant: str) -> None:
    entry = service.services.catalog.get("issue_refund")
    assert entry is not None
    with service.services.outside(entry, tenant) as systems, pytest.raises(SystemUnavailable):
        await systems.payments.payment("ch_example")


@pytest.mark.parametrize("gateway", ["sandbox", "stripe", "paypal"])
async def test_one_gateways_credential_never_goes_to_another(wired: Service, tenant: str, gateway: str) -> None:
    """Whatever the settings say the payment gateway is, and whatever else is kept for the tenant."""
    received = bytearray()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            received.extend(await read_request(reader))
            writer.write(response(b"{}", "401 Unauthorized"))
            await writer.drain()

    keys = {name: f"{name}-key-{secrets.token_hex(8)}" for name in ("sandbox", "stripe", "paypal", "store")}
    async with serving(handle) as base, new_client() as client:
        changes = {
            f"{name}": base for name in ("sandbox_gateway_url", "stripe_api_base", "paypal_api_base", "store_url")
        }
        without = {"sandbox_gateway_key": None, "store_key": None, "paypal_client_id": "client"}
        settings = wired.core.settings.model_copy(update={"payment_gateway": gateway, **changes, **without})
        selection = Selection(wired.core.ledger.database, Sealer(wired.core.master))
        service = wired.elsewhere(systems=outside_systems(settings, selection, client, ("payments", "orders")))
        for name, key in keys.items():
            if name != gateway:
                await _put(wired, tenant, name, key)
        await _read_payment(service, tenant)
        assert not received, "of the gateway itself there is none, so nothing is sent"
        await asyncio.sleep(PERMIT.total_seconds())
        await _put(wired, tenant, gateway, keys[gateway])
        await _read_payment(service, tenant)
        readable = bytes(received) + _basic(received)
        assert {name for name, key in keys.items() if key.encode() in readable} == {gateway}
        received.clear()
        entry = service.services.catalog.get("lookup_orders")
        assert entry is not None
        with service.services.outside(entry, tenant) as systems, pytest.raises(SystemUnavailable):
            await systems.orders.order("ord_example")
        assert {name for name, key in keys.items() if key.encode() in received + _basic(received)} == {"store"}


def _basic(received: bytearray) -> bytes:
    """What stands in Basic credentials (RFC 7617)."""
    words = bytes(received).split()
    return b" ".join(base64.b64decode(words[n + 1]) for n, word in enumerate(words) if word == b"Basic")


@pytest.mark.parametrize("everyones", [False, True], ids=["for a tenant", "for everyone"])
async def test_while_it_is_locked_no_credential_is_selected(wired: Service, tenant: str, everyones: bool) -> None:
    order = await wired.outside.order()
    run = await wired.open_run(order["customer_id"], tenant=tenant)
    async with off(wired, EVERYONE if everyones else tenant, "vault"):
        asked = await _asked(wired)
        for tool, arguments in (("issue_refund", refund_arguments(order, 4_000)), ("lookup_orders", {})):
            refused = await Desk(wired).admit(*await wired.input_for(run.run_id, arguments, tool))
            assert (refused.code, refused.status) == (LOCKED, "refused")
            (told,) = await _told(wired, refused.request_id)
            assert not told.reached("credential_selected")
            assert told.exchanges == ()
        assert await _asked(wired) == asked
        if not everyones:
            assert (await _refund(wired, f"{tenant}x")).code is Code.OK
    assert (await _refund(wired, tenant)).code is Code.OK


async def test_locked_between_the_question_and_the_facts_it_is_locked(wired: Service, tenant: str) -> None:
    """The switch was read on; the exchange finds the vault locked by itself."""
    systems = systems_of(wired.services)

    class Locking:
        async def order(self, order_id: str) -> Any:
            if not await wired.core.ledger.switches.off(tenant):
                await turn_off(wired, tenant, "vault")
            return await systems.orders.order(order_id)

    asked, orders = await _asked(wired), Locking()
    locking: Any = Systems(payments=systems.payments, orders=orders, helpdesk=systems.helpdesk)  # pyright: ignore[reportArgumentType]  # what it is asked
    try:
        refused = await _refund(wired.elsewhere(systems=locking), tenant)
    finally:
        await turn_on(wired, tenant, "vault")
    assert (refused.code, refused.status) == (LOCKED, "refused")
    (told,) = await _told(wired, refused.request_id)
    assert told.exchanges, "it got that far"
    assert {each.credential_id for each in told.exchanges} == {""}
    assert not any(mark.name == "credential_selected" for each in told.exchanges for mark in each.marks)
    assert await _asked(wired) == asked


@pytest.mark.parametrize("approved", [False, True], ids=["free", "approved"])
async def test_locked_in_mid_flight_nothing_is_sent_and_nothing_is_unknown(wired: Service, approved: bool) -> None:
    locked: list[str] = []
    order = await wired.outside.order(50_000)
    run_tenant = f"t{secrets.token_hex(6)}"
    run = await wired.open_run(order["customer_id"], tenant=run_tenant)

    async def lock() -> None:
        locked.append(run_tenant)
        await turn_off(wired, run_tenant, "vault")

    desk = late(wired, lock)
    sent = await refund_requests(wired)
    amount = 25_000 if approved else 4_000
    progress = await desk.admit(*await wired.input_for(run.run_id, refund_arguments(order, amount)))
    if approved:
        progress = await desk.approved(await wired.approval(await desk.record(progress.request_id)))
    assert locked
    try:
        record = await desk.record(progress.request_id)
        assert (record.code, record.status) == (LOCKED, "refused")
        assert (await desk.types(progress.request_id))[-3:] == ["effect.intended", "effect.failed", "call.settled"]
        (told,) = await _told(wired, progress.request_id)
        (effect,) = [each for each in told.exchanges if each.purpose == "effect"]
        assert (effect.problem, effect.credential_id) == ("vault_locked", "")
        assert not any(mark.name in ("credential_selected", "bytes_sent") for mark in effect.marks)
        assert await refund_requests(wired) == sent
        assert await wired.outside.effects(order) == []
    finally:
        await turn_on(wired, run_tenant, "vault")
    again = await Desk(wired).admit(*await wired.input_for(run.run_id, refund_arguments(order, 4_100)))
    assert again.code is Code.OK


@pytest.mark.parametrize("do", ["commit_then_drop", "503"])
async def test_what_is_not_known_is_looked_up_once_it_is_unlocked(wired: Service, do: str) -> None:
    desk = Desk(wired.elsewhere(patience=AT_ONCE))
    order = await wired.outside.order()
    await wired.outside.fault(do, order)
    lost = await desk.refund(order, 4_000)
    assert lost.code is Code.OUTCOME_UNKNOWN
    record = await desk.record(lost.request_id)
    async with off(wired, record.tenant, "vault"):
        asked = await _asked(wired)
        for look in (desk.inspect, desk.resend, desk.recheck):
            looked = await look(lost.request_id)
            assert (looked.next, looked.status) == ("inspect", "outcome_unknown")
        assert (await desk.inspect(lost.request_id)).after_seconds > 0
        assert await _asked(wired) == asked
        assert (await desk.record(lost.request_id)).review is None
    found = await desk.inspect(lost.request_id)
    if found.next == "resend":
        found = await desk.resend(lost.request_id)
    assert (found.next, found.code) == ("settled", Code.OK)
    assert len(await wired.outside.effects(order)) == 1
    assert await wired.outside.sends(await desk.record(lost.request_id)) == (1 if do == "commit_then_drop" else 2)


async def test_nobody_gets_a_credential_who_acts_for_nobody(wired: Service) -> None:
    source = VaultCredentials(wired.core.ledger.credentials, {"payments": "sandbox"}, {})
    with pytest.raises(LookupError, match="nobody acts"):
        await source.credential("payments")
    with acting(Acting("acme", "issue_refund")):
        with pytest.raises(CredentialUnavailableError) as missing:
            await source.credential("payments")
        with pytest.raises(KeyError):
            await source.credential("orders")
    assert missing.value.problem == "no_credential"


async def test_no_secret_is_in_a_log_an_error_or_a_representation(
    wired: Service, tenant: str, caplog: pytest.LogCaptureFixture
) -> None:
    secret = f"sandbox-key-{secrets.token_hex(12)}"
    ledger = wired.core.ledger
    with caplog.at_level(logging.DEBUG):
        record_id = await _put(wired, tenant, secret=secret)
        assert (await _refund(wired, tenant)).code is Code.AUTH_FAILED
        source = VaultCredentials(ledger.credentials, {"payments": "sandbox"}, {})
        with acting(Acting(tenant, "issue_refund")):
            credential = await source.credential("payments")
        assert credential.secret.get_secret_value() == secret
        await ledger.system.execute("UPDATE credentials SET tool = 'issue_refund' WHERE credential_id = $1", record_id)
        with pytest.raises(WrongMasterKeyError) as moved:
            await Selection(ledger.database, Sealer(wired.core.master)).select(tenant, "sandbox", "issue_refund")
        stored = await ledger.vault.stored()
        assert await ledger.vault.retire(record_id)
    told = [credential, source, ledger.credentials, vars(ledger.credentials), stored, moved.value, wired.services]
    written = " ".join([caplog.text, json.dumps([repr(each) for each in told]), repr(moved.getrepr(style="long"))])
    assert secret not in written
    assert secret[12:24] not in written


async def test_a_process_has_the_systems_of_the_queues_that_it_serves_and_no_others(wired: Service) -> None:
    async with activity_services(wired.core, inline=False, queues=("workflows",)) as services:
        assert services.systems is None
        entry = services.catalog.get("issue_refund")
        assert entry is not None
        with pytest.raises(LookupError, match="no queue that has credentials"), services.outside(entry, "acme"):
            pass
    async with activity_services(wired.core, inline=False, queues=("workflows", "orders")) as services:
        systems, none = systems_of(services), "this process holds no credential for payments"
        uses: list[Callable[[], Awaitable[object]]] = [
            lambda: systems.payments.payment("ch_example"),
            lambda: systems.payments.refunds("ch_example"),
        ]
        for use in uses:
            with pytest.raises(LookupError, match=none):
                await use()
        assert systems.orders.name == "store"
        assert SANDBOX_KEY not in repr(services)
    async with activity_services(wired.core, inline=False, queues=("payments",)) as services:
        assert systems_of(services).payments.name == "stripe"
