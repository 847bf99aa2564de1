"""Webhooks: what is genuine has the object looked at again and does nothing else, however and whenever it comes."""

import asyncio
import hashlib
import hmac
import json
import random
import secrets
import time
from collections.abc import AsyncIterator
from typing import Any

import asyncpg
import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs
from temporalio.service import RPCError, RPCStatusCode

from api import webhooks
from api.webhooks import MAX_BYTES
from ledger.calls import Calls
from ledger.records import CallRecord
from runtime.settings import SettingsError
from runtime.webhooks import webhook_readers
from schemas.ids import new_operation_id, recheck_id
from tests.api.api_process import WEBHOOK_SECRET as PROCESS_SECRET
from tests.api.api_process import ApiProcess
from tests.api.conftest import WEBHOOK_SECRET, Api, Tenant
from tests.service import PATIENCE, SANDBOX_KEY, SandboxUrls, refund_arguments, until

pytestmark = pytest.mark.asyncio(loop_scope="session")

PATH = "/v1/webhooks/sandbox"


def event(type_: str, shape: dict[str, Any]) -> bytes:
    return json.dumps(
        {
            "id": f"evt_{secrets.token_hex(12)}",
            "object": "event",
            "api_version": "2024-10-28.acacia",
            "created": int(time.time()),
            "data": {"object": shape},
            "livemode": False,
            "pending_webhooks": 1,
            "request": {"id": None, "idempotency_key": None},
            "type": type_,
        }
    ).encode()


def refund_shape(**changes: Any) -> dict[str, Any]:
    shape = {"id": "re_unknown", "object": "refund", "charge": "ch_unknown", "metadata": {}, "status": "succeeded"}
    return {**shape, **changes}


def signature(body: bytes, *, secret: str = WEBHOOK_SECRET, at: float | None = None) -> str:
    instant = int(time.time() if at is None else at)
    return f"t={instant},v1={hmac.new(secret.encode(), b'%d.%b' % (instant, body), hashlib.sha256).hexdigest()}"


async def send(api: Api, body: Any, path: str = PATH, **headers: str) -> httpx.Response:
    """A webhook that is signed well, unless `headers` say otherwise."""
    genuine = {"Content-Type": "application/json; charset=utf-8"}
    if isinstance(body, bytes):
        genuine["Stripe-Signature"] = signature(body)
    return await api.post(path, content=body, headers=genuine | {k.replace("_", "-"): v for k, v in headers.items()})


async def gateway(api: Api, method: str, path: str, **more: Any) -> Any:
    async with httpx.AsyncClient(trust_env=False) as client:
        url = api.service.outside.urls.gateway + path
        answer = await client.request(method, url, headers={"Authorization": f"Bearer {SANDBOX_KEY}"}, **more)
        assert answer.is_success, answer.text
        return answer.json()


async def record_of(api: Api, request_id: str) -> CallRecord:
    return await api.service.core.ledger.calls.read(request_id)


async def events_of(api: Api, request_id: str) -> list[str]:
    return [each.type for _, each in await api.service.core.ledger.calls.events(request_id)]


async def refunded(api: Api, tenant: Tenant) -> tuple[CallRecord, dict[str, Any]]:
    """An executed refund of 25.00, and its order."""
    order = await api.service.outside.order()
    reply = await api.call(await tenant.run(order["customer_id"]), refund_arguments(order, 2_500))
    assert reply.json()["status"] == "executed", reply.text
    return await record_of(api, reply.json()["request_id"]), order


async def looked_again(api: Api, record: CallRecord) -> None:
    """Waits until the workflow has ended that looks at a settled call again."""
    async with asyncio.timeout(PATIENCE):
        await api.service.temporal.get_workflow_handle(recheck_id(record.workflow_id)).result()


async def was_looked_at_again(api: Api, record: CallRecord) -> bool:
    try:
        await api.service.temporal.get_workflow_handle(recheck_id(record.workflow_id)).describe()
    except RPCError:
        return False
    return True


async def test_a_refund_that_fails_later_is_undone_in_the_ledger(api: Api, tenant: Tenant) -> None:
    record, order = await refunded(api, tenant)
    failed = await gateway(api, "POST", f"/_refunds/{record.remote_id}", json={"status": "failed"})
    assert (await send(api, event("refund.failed", failed))).status_code == 200
    await looked_again(api, record)
    after = await record_of(api, record.request_id)
    assert (after.status, after.code) == ("failed", "REMOTE_REFUSED")
    assert (await events_of(api, record.request_id))[-2:] == ["effect.reversed", "call.settled"]
    again = await api.call(await tenant.run(order["customer_id"]), refund_arguments(order, 2_500))
    assert again.json()["status"] == "executed"


async def test_it_is_the_gateway_that_is_believed_and_not_the_webhook(api: Api, tenant: Tenant) -> None:
    record, order = await refunded(api, tenant)
    (effect,) = await api.service.outside.effects(order)
    lie = refund_shape(id=effect["refund_id"], amount=1, status="failed", currency="eur")
    assert (await send(api, event("refund.failed", lie))).status_code == 200
    await looked_again(api, record)
    assert (await record_of(api, record.request_id)).status == "executed"
    assert "effect.reversed" not in await events_of(api, record.request_id)


async def test_what_is_recorded_already_costs_no_look(api: Api, tenant: Tenant) -> None:
    record, _ = await refunded(api, tenant)
    created = await gateway(api, "GET", f"/v1/refunds/{record.remote_id}")
    for type_ in ("refund.created", "refund.updated"):
        assert (await send(api, event(type_, created))).status_code == 200
    assert not await was_looked_at_again(api, record)


@pytest.mark.parametrize(
    "change", [{"id": "re_another"}, {"status": "pending"}, {"status": "canceled"}, {"status": None}]
)
async def test_anything_else_about_it_is_looked_into(api: Api, tenant: Tenant, change: dict[str, Any]) -> None:
    record, _ = await refunded(api, tenant)
    created = await gateway(api, "GET", f"/v1/refunds/{record.remote_id}")
    assert (await send(api, event("refund.created", created | change))).status_code == 200
    await looked_again(api, record)
    assert (await record_of(api, record.request_id)).status == "executed"


async def test_repeated_and_in_any_order_it_comes_to_the_same(api: Api, tenant: Tenant) -> None:
    record, order = await refunded(api, tenant)
    created = await gateway(api, "GET", f"/v1/refunds/{record.remote_id}")
    failed = await gateway(api, "POST", f"/_refunds/{record.remote_id}", json={"status": "failed"})
    bodies = [event("refund.failed", failed), event("refund.updated", failed), event("refund.created", created)] * 4
    random.Random(7).shuffle(bodies)
    answers = await asyncio.gather(*(send(api, body) for body in bodies))
    assert {answer.status_code for answer in answers} == {200}
    assert (await send(api, event("refund.created", created))).status_code == 200
    await looked_again(api, record)
    assert (await events_of(api, record.request_id)).count("effect.reversed") == 1
    assert len(await api.service.outside.effects(order)) == 1
    assert await api.service.outside.sends(record) == 1


async def answer_on_its_way(
    api: Api, tenant: Tenant, order: dict[str, Any], seconds: float
) -> tuple[asyncio.Task[httpx.Response], dict[str, Any]]:
    """A call whose refund the gateway has made, while the answer is so many seconds on its way, and that refund."""
    await api.service.outside.fault(f"delay:{seconds}", order)
    calling = asyncio.create_task(api.call(await tenant.run(order["customer_id"]), refund_arguments(order, 2_500)))

    async def effect() -> dict[str, Any] | None:
        return next(iter(await api.service.outside.effects(order)), None)

    return calling, await gateway(api, "GET", f"/v1/refunds/{(await until(effect))['refund_id']}")


async def test_one_that_overtakes_the_gateways_own_answer(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    calling, shape = await answer_on_its_way(api, tenant, order, 1.5)
    assert (await send(api, event("refund.created", shape))).status_code == 200
    assert not calling.done()
    reply = (await calling).json()
    assert reply["status"] == "executed"
    record = await record_of(api, reply["request_id"])
    assert len(await api.service.outside.effects(order)) == await api.service.outside.sends(record) == 1


async def test_one_that_comes_just_before_the_answer_costs_no_look(api: Api, tenant: Tenant) -> None:
    """As gateways send them: at once. A look would be another request to the gateway, and work for Temporal."""
    order = await api.service.outside.order()
    calling, shape = await answer_on_its_way(api, tenant, order, 0.3)
    assert (await send(api, event("refund.created", shape))).status_code == 200
    reply = (await calling).json()
    assert reply["status"] == "executed"
    record = await record_of(api, reply["request_id"])
    assert not await was_looked_at_again(api, record)
    found = await api.service.temporal.get_workflow_handle(record.workflow_id).fetch_history()
    assert not any(each.HasField("workflow_execution_signaled_event_attributes") for each in found.events)


async def test_one_that_waited_and_says_more_is_looked_into_until_it_can_be_read(api: Api, tenant: Tenant) -> None:
    """By a workflow that looks until it can read: the call's own is about to end."""
    order = await api.service.outside.order()
    calling, shape = await answer_on_its_way(api, tenant, order, 0.3)
    assert (await send(api, event("refund.failed", shape | {"status": "failed"}))).status_code == 200
    reply = (await calling).json()
    assert reply["status"] == "executed"
    await looked_again(api, await record_of(api, reply["request_id"]))


async def test_an_unknown_outcome_is_looked_up_when_its_webhook_comes(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    await api.service.outside.fault("commit_then_drop", order)
    # It lists nothing until the webhook is on its way, however slow this machine is.
    await api.service.outside.fault("503", order, operation="list", times=1_000)
    token = await tenant.run(order["customer_id"])
    reply = (await api.call(token, refund_arguments(order, 2_500), wait=1)).json()
    assert reply["status"] == "outcome_unknown"
    record = await record_of(api, reply["request_id"])
    (done,) = await api.service.outside.effects(order)
    # Found by our own id: the id at the gateway is in no answer that arrived.
    assert record.remote_id is None
    shape = await gateway(api, "GET", f"/v1/refunds/{done['refund_id']}")
    await gateway(api, "DELETE", "/_faults")
    assert (await send(api, event("refund.created", shape))).status_code == 200
    handle = api.service.temporal.get_workflow_handle(record.workflow_id)
    signals = [
        each.workflow_execution_signaled_event_attributes.signal_name
        async for each in handle.fetch_history_events()
        if each.HasField("workflow_execution_signaled_event_attributes")
    ]
    assert signals == ["look"]
    await api.service.waiters.wait(record.workflow_id, PATIENCE)
    assert (await record_of(api, record.request_id)).status == "executed"
    assert len(await api.service.outside.effects(order)) == await api.service.outside.sends(record) == 1


async def test_a_pending_refund_is_brought_up_to_date(api: Api, tenant: Tenant) -> None:
    order = await api.service.outside.order()
    await api.service.outside.fault("pending", order)
    token = await tenant.run(order["customer_id"])
    reply = (await api.call(token, refund_arguments(order, 2_500))).json()
    record = await record_of(api, reply["request_id"])
    done = await gateway(api, "POST", f"/_refunds/{record.remote_id}", json={"status": "succeeded"})
    assert (await send(api, event("refund.updated", done))).status_code == 200
    await looked_again(api, record)
    after = await api.get(f"/v1/tool-calls/{record.request_id}", token)
    assert after.json()["status"] == "executed"
    assert after.json()["result"]["status"] == "succeeded"


@pytest.mark.parametrize(
    "body",
    [
        event("refund.created", refund_shape()),
        event("refund.failed", refund_shape(metadata={"counterseal_operation": new_operation_id()})),
        event("refund.failed", refund_shape(metadata={"counterseal_operation": "of\0somebody\ud800else"})),
        event("charge.refunded", {"id": "ch_unknown", "object": "charge"}),
        event("charge.dispute.created", {"id": "dp_1", "object": "dispute", "charge": "ch_unknown"}),
        event("balance.available", {"object": "balance"}),
    ],
    ids=["by hand", "another service's", "any text", "a payment", "a dispute", "about none"],
)
async def test_what_is_nothing_of_ours_is_taken_and_changes_nothing(api: Api, body: bytes) -> None:
    before = await api.rows()
    answer = await send(api, body)
    assert (answer.status_code, answer.content) == (200, b"")
    assert await api.rows() == before


def _forged(body: bytes) -> dict[str, tuple[bytes, dict[str, str]]]:
    now, nobody = time.time(), event("refund.failed", {"object": "refund"})
    return {
        "without a signature": (body, {"Stripe_Signature": ""}),
        "of another secret": (body, {"Stripe_Signature": signature(body, secret="whsec_guessed")}),
        "without a secret": (body, {"Stripe_Signature": signature(body, secret="")}),
        "of another body": (body, {"Stripe_Signature": signature(body + b" ")}),
        "replayed later": (body, {"Stripe_Signature": signature(body, at=now - 360)}),
        "from the future": (body, {"Stripe_Signature": signature(body, at=now + 360)}),
        "with another time": (body, {"Stripe_Signature": signature(body).replace("t=", "t=1")}),
        "of another scheme": (body, {"Stripe_Signature": signature(body).replace("v1=", "v0=")}),
        "no JSON": (b"{", {"Stripe_Signature": signature(b"{")}),
        "names twice": (b'{"id":1,"id":2}', {"Stripe_Signature": signature(b'{"id":1,"id":2}')}),
        "about no one": (
            nobody := event("refund.failed", {"object": "refund"}),
            {"Stripe_Signature": signature(nobody)},
        ),
    }


async def test_what_is_not_genuine_is_refused_and_nothing_else(api: Api, tenant: Tenant) -> None:
    record, _ = await refunded(api, tenant)
    shape = await gateway(api, "GET", f"/v1/refunds/{record.remote_id}")
    before = await api.rows()
    for name, (body, headers) in _forged(event("refund.failed", shape)).items():
        with capture_logs() as logs:
            answer = await send(api, body, **headers)
        assert answer.status_code == 400, name
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["code"] == "INVALID_INPUT"
        (line,) = [each for each in logs if each["event"] == "webhook_not_genuine"]
        assert line.keys() == {"event", "log_level", "gateway", "because"}
        for text in (answer.text, str(logs)):
            assert not any(secret in text for secret in (str(record.remote_id), str(record.operation_id), "v1=")), name
    assert await api.rows() == before
    assert not await was_looked_at_again(api, record)


@pytest.mark.parametrize("seconds", [-240, 240])
async def test_a_clock_may_be_a_little_off(api: Api, seconds: int) -> None:
    body = event("refund.created", refund_shape())
    assert (await send(api, body, Stripe_Signature=signature(body, at=time.time() + seconds))).status_code == 200


async def test_a_body_that_is_too_large_is_not_read(api: Api) -> None:
    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b" " * 100_000

    assert (await send(api, b" " * (MAX_BYTES + 1))).status_code == 413
    assert (await send(api, endless())).status_code == 413
    largest = event("refund.created", refund_shape())
    assert (await send(api, largest + b" " * (MAX_BYTES - len(largest)))).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Content_Type": "application/x-www-form-urlencoded"},
        {"Content_Type": "application/json; charset=utf-16"},
        {"Content_Encoding": "gzip"},
    ],
)
async def test_what_is_no_plain_json_is_refused(api: Api, headers: dict[str, str]) -> None:
    assert (await send(api, event("refund.created", refund_shape()), **headers)).status_code == 415


@pytest.mark.parametrize("name", ["stripe", "Sandbox", "paypal", "sandbox%2F", "%00"])
async def test_only_the_configured_gateway_is_there(api: Api, name: str) -> None:
    answer = await send(api, event("refund.created", refund_shape()), f"/v1/webhooks/{name}")
    assert answer.status_code == 404
    assert answer.json()["code"] == "INVALID_INPUT"


async def test_without_the_database_it_is_to_come_again(
    api: Api, tenant: Tenant, monkeypatch: pytest.MonkeyPatch
) -> None:
    record, _ = await refunded(api, tenant)
    body = event("refund.failed", await gateway(api, "GET", f"/v1/refunds/{record.remote_id}") | {"status": "failed"})

    async def away(*arguments: Any) -> None:
        raise asyncpg.CannotConnectNowError("the database system is starting up")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(Calls, "by_effect", away)
        answer = await send(api, body)
    assert answer.status_code == 503
    assert answer.json()["code"] == "TEMPORARY_FAILURE"
    assert "Retry-After" in answer.headers
    assert (await send(api, body)).status_code == 200
    await looked_again(api, record)


class _NoTemporal:
    """A client whose server is away: it says so, or nothing at all."""

    def __init__(self, *, silent: bool) -> None:
        self._silent = silent

    def get_workflow_handle(self, workflow_id: str) -> "_NoTemporal":
        return self

    async def signal(self, *arguments: Any) -> None:
        await self._away()

    async def start_workflow(self, *arguments: Any, **options: Any) -> None:
        await self._away()

    async def _away(self) -> None:
        if self._silent:
            await asyncio.sleep(PATIENCE)
        raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")


@pytest.mark.parametrize("silent", [False, True])
async def test_without_temporal_it_is_to_come_again(
    api: Api, tenant: Tenant, monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    record, _ = await refunded(api, tenant)
    body = event("refund.failed", await gateway(api, "GET", f"/v1/refunds/{record.remote_id}") | {"status": "failed"})
    with api.over(temporal=_NoTemporal(silent=silent)), monkeypatch.context() as meanwhile:
        meanwhile.setattr(webhooks, "_TEMPORAL_SECONDS", 0.1)
        answer = await send(api, body)
    assert (answer.status_code, answer.json()["code"]) == (503, "TEMPORARY_FAILURE")
    assert not await was_looked_at_again(api, record)
    assert (await send(api, body)).status_code == 200
    await looked_again(api, record)


async def test_it_takes_no_token_and_none_helps(api: Api, tenant: Tenant) -> None:
    body = event("refund.created", refund_shape())
    headers = {"Content-Type": "application/json"}
    for token in (tenant.service_token, tenant.operator_token, None):
        assert (await api.post(PATH, token, content=body, headers=headers)).status_code == 400
    assert (await api.get(PATH)).status_code == 405


async def test_what_the_gateway_itself_sends_is_taken_and_what_is_forged_is_not(
    process: ApiProcess, sandbox_urls: SandboxUrls
) -> None:
    hows = ("wrong_signature", "old_timestamp", "future_timestamp", "no_signature", "altered_body")
    async with httpx.AsyncClient(base_url=sandbox_urls.gateway, trust_env=False) as client:
        endpoint = {"url": f"{process.url}{PATH}", "secret": f"whsec_next,{PROCESS_SECRET}"}
        (await client.put("/_webhooks", json=endpoint)).raise_for_status()
        try:
            wanted = {"unknown_object": 200, "unrelated": 200}
            for do in wanted:
                assert (await client.post("/_webhooks", json={"do": do})).is_success
            for how in hows:
                assert (await client.post("/_webhooks", json={"do": "forge", "how": how})).is_success

            async def delivered() -> list[dict[str, Any]] | None:
                found = (await client.get("/_webhooks/deliveries")).json()
                return found["deliveries"] if found["pending"] == 0 else None

            attempts = await until(delivered)
        finally:
            await client.delete("/_webhooks")
    assert {each["status"] for each in attempts if each["forgery"] is None} == {200}
    assert {each["forgery"]: each["status"] for each in attempts if each["forgery"]} == dict.fromkeys(hows, 400)


async def test_which_webhooks_are_taken_is_a_matter_of_settings(api: Api) -> None:
    settings = api.service.core.settings
    for none in (None, SecretStr("")):
        assert webhook_readers(settings.model_copy(update={"sandbox_webhook_secret": none})) == {}
    secret = SecretStr("whsec_a, whsec_b")
    for name in ("sandbox", "stripe"):
        chosen = settings.model_copy(
            update={"payment_gateway": name, "sandbox_webhook_secret": secret, "stripe_webhook_secret": secret}
        )
        readers = webhook_readers(chosen)
        assert readers.keys() == {name}
        with api.over(webhooks=readers):
            for one in ("whsec_a", "whsec_b"):
                body = event("refund.created", refund_shape())
                answer = await send(api, body, f"/v1/webhooks/{name}", Stripe_Signature=signature(body, secret=one))
                assert answer.status_code == 200
    for empty in ("whsec_a,", ", "):
        with pytest.raises(SettingsError, match="COUNTERSEAL_SANDBOX_WEBHOOK_SECRET"):
            webhook_readers(settings.model_copy(update={"sandbox_webhook_secret": SecretStr(empty)}))
