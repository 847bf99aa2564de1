"""Sequences that are known to have broken payment systems, where it takes processes of their own to play them."""

import asyncio
import dataclasses
import secrets
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from threading import Barrier
from typing import Any, TypeVar

import httpx
import psutil
import pytest
from temporalio.client import Client

from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.records import CallRecord
from ledger.signing import DecisionSigner
from runtime.codec import data_converter
from runtime.stack.files import DataFolder
from runtime.stack.ports import PortClaims
from schemas.decisions import SignedDecision
from tests.e2e.running import Customer, RunningStack
from tests.service import PATIENCE, human_decision

T = TypeVar("T")


def _until(look: Callable[[], T | None]) -> T:
    """What `look` finds, as soon as it finds something."""
    give_up = time.monotonic() + PATIENCE
    while not (found := look()):
        assert time.monotonic() < give_up
        time.sleep(0.02)
    return found


@contextmanager
def _process(
    stack: RunningStack, program: str, folder: Path, settings: Mapping[str, str]
) -> Generator[subprocess.Popen[bytes]]:
    """One more process of the stack's service, configured as its API is."""
    files = {"COUNTERSEAL_TRACES_FILE": str(folder / f"{program}.jsonl")}
    environment = {**psutil.Process(stack.info["pids"]["api"]).environ(), **files, **settings}
    with (folder / f"{program}.log").open("wb") as log:
        command = [sys.executable, "-m", "runtime.cli.main", program]
        process = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


@contextmanager
def _another_worker(stack: RunningStack, folder: Path) -> Generator[None]:
    ready = folder / "worker.ready"
    with _process(stack, "worker", folder, {"COUNTERSEAL_READY_FILE": str(ready)}):
        _until(ready.exists)
        yield


@contextmanager
def _another_api(
    stack: RunningStack, folder: Path, *, eager: bool
) -> Generator[tuple[subprocess.Popen[bytes], RunningStack]]:
    """The process, and the stack as it is reached through it. `eager`: it works off what it starts by itself."""
    with PortClaims() as claims:
        port = claims.claim_any()
        settings = {"COUNTERSEAL_API_PORT": str(port), "COUNTERSEAL_EAGER_START": str(eager).lower()}
        with _process(stack, "api", folder, settings) as process:
            through = dataclasses.replace(stack, info={**stack.info, "api": f"http://127.0.0.1:{port}"})

            def answers() -> bool:
                try:
                    return through.http.get(f"{through.info['api']}/readyz").is_success
                except httpx.ConnectError:
                    return False

            _until(answers)
            yield process, through


def _call(customer: Customer, amount: int, *, key: str, wait: int) -> httpx.Response:
    """A refund, whose answer is wanted after `wait` seconds at the latest."""
    arguments = {
        "order_id": customer.order_id,
        "amount_cents": amount,
        "currency": "USD",
        "reason_code": "damaged",
        "idempotency_key": key,
    }
    body = {"tool": "issue_refund", "arguments": arguments}
    return customer.stack.post(f"/v1/tool-calls?wait_seconds={wait}", customer.token, body)


def _effects_of(customer: Customer) -> list[int]:
    return [each["amount"] for each in customer.effects()]


def _refund_requests(stack: RunningStack) -> int:
    return sum(each["operation"] == "refund" for each in stack.gateway("/_requests")["requests"])


async def _record(stack: RunningStack, request_id: str) -> CallRecord:
    database = await connect(stack.info["database"])
    try:
        return await Ledger.over(database, _master(stack)).calls.read(request_id)
    finally:
        await database.close()


def _master(stack: RunningStack) -> MasterKey:
    return MasterKey.from_file(DataFolder(stack.data).keys / "master.key")


def test_twenty_refunds_through_two_apis_and_two_workers_never_exceed_what_was_paid(
    stack: RunningStack, tmp_path: Path
) -> None:
    with ExitStack() as processes:
        # What the other API starts goes to whoever is free: that API's calls run in workers, the first one's in itself.
        _, other = processes.enter_context(_another_api(stack, tmp_path, eager=False))
        processes.enter_context(_another_worker(stack, tmp_path))
        customer, amounts = stack.order(paid=10_000), range(990, 1_010)
        agents = [
            dataclasses.replace(customer, stack=through, token=stack.open_run(customer.customer_id))
            for through in (stack, other) * 10
        ]
        together = Barrier(len(agents))

        def refund(agent: Customer, amount: int) -> dict[str, Any]:
            together.wait(PATIENCE)
            reply = agent.refund(amount).json()
            return agent.progress(reply["request_id"]) if reply["status"] == "in_progress" else reply

        with ThreadPoolExecutor(len(agents)) as pool:
            replies = list(pool.map(refund, agents, amounts))
    told = dict(zip(amounts, replies, strict=True))
    paid = [amount for amount, reply in told.items() if reply["code"] == "OK"]
    refused = [amount for amount, reply in told.items() if reply["code"] == "REFUND_EXCEEDS_PAID"]
    assert len(paid) + len(refused) == len(amounts), told
    # Neither more than there was, nor less than there was room for.
    assert sum(paid) <= 10_000 < sum(paid) + min(refused)
    assert sorted(_effects_of(customer)) == paid
    assert customer.posts() == len(paid)
    # Once all have ended, what is left is exactly the rest: none of those that lost holds anything.
    left = dataclasses.replace(customer, token=stack.open_run(customer.customer_id)).refund(10_000).json()
    assert (left["code"], left["allowed"]) == ("REFUND_EXCEEDS_PAID", {"max_amount_cents": 10_000 - sum(paid)})


def test_the_same_call_while_the_gateway_sleeps_is_in_progress_and_sent_once(stack: RunningStack) -> None:
    customer, key = stack.order(), secrets.token_hex(16)
    stack.fault("refund", "delay:1.5", customer.payment_id)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(_call, customer, 4_000, key=key, wait=20)
        _until(customer.effects)
        again = [_call(customer, 4_000, key=key, wait=0) for _ in range(3)]
        assert not first.done()
        done = first.result(PATIENCE)
    assert {reply.status_code for reply in again} == {202}
    assert {reply.json()["code"] for reply in again} == {"IN_PROGRESS"}
    assert (done.status_code, done.json()["code"]) == (200, "OK")
    assert {reply.json()["request_id"] for reply in again} == {done.json()["request_id"]}
    assert _call(customer, 4_000, key=key, wait=20).json() == done.json()
    assert _effects_of(customer) == [4_000]
    assert customer.posts() == 1


def test_a_batch_whose_worker_is_killed_on_the_way_and_that_is_sent_again_is_paid_once_each(
    stack: RunningStack, tmp_path: Path
) -> None:
    batch = [(stack.order(), 1_000 + n, secrets.token_hex(16)) for n in range(20)]
    with _another_api(stack, tmp_path, eager=True) as (worker, through), ThreadPoolExecutor(1) as pool:
        for customer, amount, key in batch[:6]:
            reply = dataclasses.replace(customer, stack=through).refund(amount, key=key).json()
            assert reply["code"] == "OK"
        # The seventh is at the gateway when the process that waits for its answer is gone.
        customer, amount, key = batch[6]
        stack.fault("refund", "delay:20", customer.payment_id)
        seventh = pool.submit(dataclasses.replace(customer, stack=through).refund, amount, key=key)
        _until(customer.effects)
        worker.send_signal(signal.SIGKILL)
        with pytest.raises(httpx.TransportError):
            seventh.result(PATIENCE)
    with ThreadPoolExecutor(4) as pool:
        again = list(pool.map(lambda item: item[0].refund(item[1], key=item[2]).json(), batch))
    replies = [item[0].progress(reply["request_id"]) for item, reply in zip(batch, again, strict=True)]
    assert {reply["status"] for reply in replies} == {"executed"}
    for customer, amount, _ in batch:
        assert _effects_of(customer) == [amount]
        assert customer.posts() == 1
    record = asyncio.run(_record(stack, replies[6]["request_id"]))
    assert record.details.effect is not None
    assert record.details.effect.attempt == 1


def _copy_database(source: Path, target: Path) -> None:
    """As a backup does, while it is in use."""
    with closing(sqlite3.connect(source)) as live, closing(sqlite3.connect(target)) as copy:
        live.backup(copy)


async def _deliver_approval(stack: RunningStack, request_id: str) -> None:
    """Another valid approval of that very action reaches the call's workflow, which then ends."""
    master, database = _master(stack), await connect(stack.info["database"])
    try:
        ledger = Ledger.over(database, master)
        record = await ledger.calls.read(request_id)
        assert record.approval_id is not None
        approval = await ledger.of(record.tenant).approvals.get(record.tenant, record.approval_id)
        assert approval is not None
    finally:
        await database.close()
    token = DecisionSigner(master).sign(human_decision(approval, "approve"))
    client = await Client.connect(stack.info["temporal"], data_converter=data_converter(master))
    handle = client.get_workflow_handle(record.workflow_id)
    decision = SignedDecision(approval_id=record.approval_id, verdict="approve", token=token)
    await handle.signal("decide", decision)
    await asyncio.wait_for(handle.result(), PATIENCE)


async def _until_its_workflow_ends(stack: RunningStack, request_id: str) -> None:
    record = await _record(stack, request_id)
    client = await Client.connect(stack.info["temporal"], data_converter=data_converter(_master(stack)))
    await asyncio.wait_for(client.get_workflow_handle(record.workflow_id).result(), PATIENCE)


def test_temporals_database_from_an_older_copy_has_nothing_done_twice(tmp_path: Path) -> None:
    data = DataFolder(tmp_path / "data")
    settings = {"COUNTERSEAL_ABSENCE_SECONDS": "3"}
    stack = RunningStack.start(data.root, settings)
    temporal, older = data.temporal / "temporal.db", tmp_path / "older.db"
    done, waiting, unsure, late, late_waiting = (stack.order() for _ in range(5))
    keys = {customer.customer_id: secrets.token_hex(16) for customer in (done, late)}
    told = {done.customer_id: done.refund(2_500, key=keys[done.customer_id]).json()}
    parked = waiting.refund(25_000).json()
    stack.fault("refund", "503", unsure.payment_id)
    unknown = _call(unsure, 2_500, key=secrets.token_hex(16), wait=1).json()
    assert unknown["status"] == "outcome_unknown"
    _copy_database(temporal, older)

    # After the copy all of these come to their end, and two begin.
    assert unsure.progress(unknown["request_id"])["status"] == "executed"
    assert waiting.decide("approve").is_success
    assert waiting.progress(parked["request_id"])["status"] == "executed"
    told[late.customer_id] = late.refund(2_500, key=keys[late.customer_id]).json()
    late_parked = late_waiting.refund(25_000).json()
    assert late_parked["status"] == "pending_approval"
    sent = _refund_requests(stack)
    assert stack.stop() == 0

    for path in data.temporal.glob("temporal.db*"):
        path.unlink()
    older.replace(temporal)
    stack = RunningStack.start(data.root, settings)
    try:
        for customer in (done, waiting, unsure, late, late_waiting):
            customer.stack = stack
        # Temporal has them open again, or knows nothing of them; the ledger knows that they are done.
        asyncio.run(_deliver_approval(stack, parked["request_id"]))
        asyncio.run(_until_its_workflow_ends(stack, unknown["request_id"]))
        for customer in (done, late):
            assert customer.refund(2_500, key=keys[customer.customer_id]).json() == told[customer.customer_id]
        assert _refund_requests(stack) == sent
        # What waits for a person waits on, under a workflow that was started again.
        assert late_waiting.decide("approve").is_success
        assert late_waiting.progress(late_parked["request_id"])["status"] == "executed"
        assert _refund_requests(stack) == sent + 1
        for customer, amount in ((done, 2_500), (waiting, 25_000), (unsure, 2_500), (late, 2_500)):
            assert _effects_of(customer) == [amount]
        assert _effects_of(late_waiting) == [25_000]
    finally:
        assert stack.stop() == 0
