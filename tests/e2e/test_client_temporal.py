"""Another runtime's workflows call tools: `ToolCall` as their child, its reply by HTTP, and no key of the service's."""

import asyncio
import secrets
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from counterseal_client import AsyncCounterseal, AsyncRun, Reply
from counterseal_client.adapters.temporal import Replies
from temporalio.api.common.v1 import Payload
from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.converter import DataConverter, PayloadCodec
from temporalio.exceptions import CancelledError
from temporalio.worker import Worker

from tests.e2e.foreign_agent import ForeignAgent
from tests.e2e.running import Customer, RunningStack
from tests.service import until

LARGE = 31_240


@dataclass
class Agents:
    """A worker for `ForeignAgent`, in whose process the runs and their tokens stay."""

    service: AsyncCounterseal
    temporal: Client
    queue: str = field(default_factory=lambda: f"agents-{secrets.token_hex(4)}")
    runs: dict[str, AsyncRun] = field(default_factory=dict[str, AsyncRun])

    async def start(self, customer: Customer, amount: int, **more: Any) -> WorkflowHandle[Any, dict[str, Any]]:
        """A workflow that asks for a refund, in a new run; the step is always the same one of this customer."""
        run = await self.service.open_run(
            agent_id="agent", actor_id="user", customer_id=customer.customer_id, tools=["issue_refund"]
        )
        assert run.run_id is not None
        self.runs[run.run_id] = run
        asked = {"order_id": customer.order_id, "amount_cents": amount, "currency": "USD", "reason_code": "damaged"}
        return await self.temporal.start_workflow(
            ForeignAgent.run,
            args=[run.run_id, {**asked, **more}, customer.customer_id],
            id=f"agent/{secrets.token_hex(8)}",
            task_queue=self.queue,
        )

    async def reply(self, customer: Customer, amount: int, **more: Any) -> Reply:
        return await ended(await self.start(customer, amount, **more))


async def ended(started: WorkflowHandle[Any, dict[str, Any]]) -> Reply:
    async with asyncio.timeout(60):
        return Reply.model_validate(await started.result())


@asynccontextmanager
async def agents_of(stack: RunningStack, converter: DataConverter = DataConverter.default) -> AsyncGenerator[Agents]:
    temporal = await Client.connect(stack.info["temporal"], data_converter=converter)
    async with AsyncCounterseal(stack.info["api"], stack.info["service_token"]) as service:
        agents = Agents(service, temporal)
        activities = [Replies(lambda run_id: agents.runs[run_id]).reply]
        async with Worker(temporal, task_queue=agents.queue, workflows=[ForeignAgent], activities=activities):
            yield agents


async def waiting(customer: Customer) -> dict[str, Any]:
    """The customer's approval, once there is one."""

    async def look() -> dict[str, Any] | None:
        try:
            return await asyncio.to_thread(customer.waiting)
        except ValueError:
            return None

    return await until(look)


async def approved(customer: Customer) -> None:
    await waiting(customer)
    assert (await asyncio.to_thread(customer.decide, "approve")).status_code == 200


async def amounts(customer: Customer) -> list[int]:
    return [each["amount"] for each in await asyncio.to_thread(customer.effects)]


async def events_of(started: WorkflowHandle[Any, Any]) -> list[str]:
    """What happened in its history: names of its attributes' fields."""
    history = await started.fetch_history()
    return [event.WhichOneof("attributes") or "" for event in history.events]


async def test_a_step_is_one_call_of_whatever_workflow_and_a_refusal_is_a_reply(stack: RunningStack) -> None:
    done, wrong = [await asyncio.to_thread(stack.order) for _ in range(2)]
    async with agents_of(stack) as agents:
        first = await agents.reply(done, 4999)
        assert first.status == "executed"
        assert await agents.reply(done, 4999) == first
        other = await agents.reply(done, 5000)
        assert (other.code, other.settled) == ("IDEMPOTENCY_CONFLICT", True)
        assert (await agents.reply(wrong, 4999, nonsense=True)).code == "INVALID_INPUT"
    assert [await amounts(each) for each in (done, wrong)] == [[4999], []]


async def test_the_child_is_what_waits(stack: RunningStack) -> None:
    customer = await asyncio.to_thread(stack.order)
    async with agents_of(stack) as agents:
        started = await agents.start(customer, LARGE)
        await approved(customer)
        assert (await ended(started)).status == "executed"
        events = await events_of(started)
    assert "child_workflow_execution_completed_event_attributes" in events
    assert events.count("activity_task_scheduled_event_attributes") == 1
    assert "timer_started_event_attributes" not in events
    assert await amounts(customer) == [LARGE]


async def test_who_is_cancelled_leaves_the_call_to_whoever_does_the_step_again(stack: RunningStack) -> None:
    customer = await asyncio.to_thread(stack.order)
    async with agents_of(stack) as agents:
        started = await agents.start(customer, LARGE)
        await waiting(customer)
        await started.cancel()
        with pytest.raises(WorkflowFailureError) as said:
            await ended(started)
        assert isinstance(said.value.cause, CancelledError)
        again = await agents.start(customer, LARGE)
        await approved(customer)
        assert (await ended(again)).status == "executed"
    assert await amounts(customer) == [LARGE]


class Sealed(PayloadCodec):
    """Stands for a caller's own encryption, under the name that the service's has as well."""

    async def encode(self, payloads: Sequence[Payload]) -> list[Payload]:
        metadata = {"encoding": b"binary/encrypted", "encryption-key-id": b"theirs"}
        return [Payload(metadata=metadata, data=each.SerializeToString()[::-1]) for each in payloads]

    async def decode(self, payloads: Sequence[Payload]) -> list[Payload]:
        return [
            Payload.FromString(each.data[::-1]) if each.metadata.get("encryption-key-id") == b"theirs" else each
            for each in payloads
        ]


async def test_what_a_caller_encrypts_is_called_by_http(stack: RunningStack) -> None:
    """The child cannot read its input, and nothing of the arguments stands anywhere in the clear."""
    customer = await asyncio.to_thread(stack.order)
    async with agents_of(stack, replace(DataConverter.default, payload_codec=Sealed())) as agents:
        started = await agents.start(customer, LARGE)
        await approved(customer)
        assert (await ended(started)).status == "executed"
        history = await started.fetch_history()
    assert customer.order_id.encode() not in b"".join(event.SerializeToString() for event in history.events)
    assert await amounts(customer) == [LARGE]
