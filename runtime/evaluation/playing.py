"""Plays slices against a running service: its customers laid out in the sandbox, its calls through the agent API."""

import re
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
from pydantic import JsonValue

from runtime.demo.approver import ApprovalsApi
from runtime.demo.client import AgentApi, Answer
from runtime.evaluation.slices import Expected, OrderText, Slice, Step
from runtime.stack.connection import SandboxUrls

_PLACE = re.compile(r"\{([a-z0-9_.]+)\}")
_SETTLING = ("in_progress", "outcome_unknown")
_WAIT_SECONDS = 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """One step, or a slice as a whole (`step` 0): what was not as the set says, in our words; empty where all was."""

    slice: str
    step: int
    problem: str = ""
    unauthorised: bool = False
    recovers: bool = False
    completes_chain: bool = False


@dataclass
class _Laid:
    """A slice's customer in the sandbox: ids by the slice's own names, lines of its orders, results by step."""

    customer_id: str
    agent_id: str
    ids: dict[str, str] = field(default_factory=dict[str, str])
    orders: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    results: dict[int, dict[str, JsonValue]] = field(default_factory=dict[int, dict[str, JsonValue]])
    keys: dict[int, str] = field(default_factory=dict[int, str])
    turns: dict[str, str] = field(default_factory=dict[str, str])


SwitchOff = Callable[[str], Awaitable[None]]


class Player:
    """`switch_off` turns a kill switch off, by its name. Every slice has a customer and an agent of its own. `outbox`
    is where the outbox answers; None where no slice needs it."""

    def __init__(
        self,
        api: AgentApi,
        people: ApprovalsApi,
        outside: httpx.AsyncClient,
        urls: SandboxUrls,
        switch_off: SwitchOff,
        outbox: str | None = None,
    ) -> None:
        self._api = api
        self._people = people
        self._outside = outside
        self._urls = urls
        self._switch_off = switch_off
        self._outbox = outbox

    async def play(self, slice_: Slice) -> list[Outcome]:
        """What came of each step, and of the slice as a whole. Raises ApiProblem, httpx.HTTPError."""
        laid = await self._lay(slice_)
        token = await self._api.open_run(
            agent_id=laid.agent_id, actor_id="evaluation", customer_id=laid.customer_id, tools=slice_.tools
        )
        outcomes: list[Outcome] = []
        for n, step in enumerate(slice_.steps, 1):
            problem = await self._step(n, step, laid, token)
            outcomes.append(Outcome(slice_.name, n, problem, step.unauthorised, step.recovers, step.completes_chain))
        return [*outcomes, Outcome(slice_.name, 0, await self._ended(slice_, laid))]

    async def _ended(self, slice_: Slice, laid: _Laid) -> str:
        """What is otherwise than the slice says, by the remote systems' own records; empty for nothing."""
        kept = await self._kept(laid)
        really = (
            ("was refunded", await self._refunded(laid), slice_.refunded_cents),
            ("messages went out", kept["messages"], slice_.messages),
            ("notes are kept", kept["notes"], slice_.notes),
        )
        return "; ".join(f"{found} {what}, not {expected}" for what, found, expected in really if found != expected)

    async def _step(self, n: int, step: Step, laid: _Laid, token: str) -> str:
        for name, status in step.becomes.items():
            laid.orders[name]["status"] = status
            await self._put(f"{self._urls.store}/_orders/{laid.ids[name]}", laid.orders[name])
        if step.off:
            await self._switch_off(f"agent:{laid.agent_id}")
        if step.lost:
            await self._lose_next(laid)
        laid.keys[n] = laid.keys[step.repeats] if step.repeats else secrets.token_hex(16)
        arguments = {name: _filled(value, laid) for name, value in step.arguments.items()}
        if arguments.get("idempotency_key") == "fresh":
            arguments["idempotency_key"] = laid.keys[n]
        trace = _traceparent(laid.turns.setdefault(step.turn, secrets.token_hex(16))) if step.turn else None
        called = await self._api.call(token, step.call, arguments, traceparent=trace)
        answer = await self._settled(token, called)
        if problem := _difference(step.expect, answer):
            return problem
        if step.then is not None:
            answer = await self._decided(step.then, token, answer)
            if step.finally_ is not None and (problem := _difference(step.finally_, answer)):
                return f"after a person decided: {problem}"
        laid.results[n] = answer.result or {}
        return ""

    async def _decided(self, verdict: Any, token: str, answer: Answer) -> Answer:
        approval = (await self._people.waiting()).get(answer.request_id)
        if approval is not None:
            await self._people.decide(approval, verdict, "as the evaluation set says")
        return await self._settled(token, await self._api.progress(token, answer.request_id, wait_seconds=5))

    async def _settled(self, token: str, answer: Answer) -> Answer:
        """The call once it has settled or parked, or as it stands after a while."""
        for _ in range(_WAIT_SECONDS // 5):
            if answer.status not in _SETTLING:
                break
            answer = await self._api.progress(token, answer.request_id, wait_seconds=5)
        return answer

    async def _lay(self, slice_: Slice) -> _Laid:
        mark = secrets.token_hex(6)
        laid = _Laid(f"cus_{mark}", f"evaluated-{mark}")
        customer = {"customer_id": laid.customer_id, "name": "Eve Example", "email": f"{mark}@example.com"}
        await self._put(f"{self._urls.store}/_customers/{laid.customer_id}", customer)
        for name, order in slice_.orders.items():
            line = _order_line(order, laid.customer_id)
            laid.ids[name], laid.orders[name] = line["order_id"], line
            await self._put(f"{self._urls.store}/_orders/{line['order_id']}", line)
            if order.note is not None:
                await self._put_parcel(line, order.note)
        for name in slice_.tickets:
            number = secrets.randbelow(2**40) + 10_000
            laid.ids[name] = str(number)
            words = {"subject": "A question", "description": slice_.says}
            ticket = {"id": number, "customer_id": laid.customer_id, "status": "open", **words}
            await self._put(f"{self._urls.helpdesk}/_tickets/{number}", ticket)
        return laid

    async def _put_parcel(self, order: dict[str, Any], note: str) -> None:
        tracking_id = order["tracking_ids"][0]
        parcel: dict[str, Any] = {
            "tracking_id": tracking_id,
            "order_id": order["order_id"],
            "carrier": "Sample Parcel",
            "state": "delivered",
            "events": [],
            "note": note,
        }
        await self._put(f"{self._urls.store}/_shipments/{tracking_id}", parcel)

    async def _lose_next(self, laid: _Laid) -> None:
        script = [
            {"operation": "refund", "times": 1, "do": "commit_then_drop", "payment_id": each["payment_id"]}
            for line in laid.orders.values()
            for each in line["payments"]
        ]
        (await self._outside.post(f"{self._urls.gateway}/_faults", json=script)).raise_for_status()

    async def _refunded(self, laid: _Laid) -> int:
        payments = {each["payment_id"] for line in laid.orders.values() for each in line["payments"]}
        answer = await self._outside.get(f"{self._urls.gateway}/_effects")
        answer.raise_for_status()
        return sum(each["amount"] for each in answer.json()["effects"] if each["payment_id"] in payments)

    async def _kept(self, laid: _Laid) -> dict[str, int]:
        """How many messages went out to the customer, and how many notes are kept about them."""
        if self._outbox is None:
            return {"messages": 0, "notes": 0}
        answer = await self._outside.get(f"{self._outbox}/_kept", params={"customer_id": laid.customer_id})
        return {kind: len(kept) for kind, kept in answer.raise_for_status().json().items()}

    async def _put(self, url: str, content: dict[str, Any]) -> None:
        (await self._outside.put(url, json=content)).raise_for_status()


def _order_line(order: OrderText, customer_id: str) -> dict[str, Any]:
    mark = secrets.token_hex(6)
    placed = datetime.now(UTC) - timedelta(days=order.days_old)
    cents = order.paid_cents
    return {
        "order_id": f"ord_{mark}",
        "customer_id": customer_id,
        "status": order.status,
        "placed_at": placed.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "currency": "USD",
        "items": [{"item_id": "1", "name": "Lamp", "quantity": 1, "price_cents": cents, "options": {}}],
        "payments": [{"payment_id": f"pay_{mark}", "method": "card", "captured_cents": cents}],
        "refunds": [],
        "disputed": order.disputed,
        "shipping_address": {
            "line1": "1 Example Street",
            "line2": None,
            "city": "Sampletown",
            "region": "CA",
            "postal_code": "90000",
            "country": "US",
        },
        "tracking_ids": [] if order.status == "open" else [f"T{mark}"],
    }


def _traceparent(trace_id: str) -> str:
    """A call's place in a trace, https://www.w3.org/TR/trace-context/."""
    return f"00-{trace_id}-{secrets.token_hex(8)}-01"


def _filled(value: JsonValue, laid: _Laid) -> JsonValue:
    """Pure. A text with what its `{names}` stand for; a name that stands for nothing stays as it is."""
    if not isinstance(value, str):
        return value

    def found(match: re.Match[str]) -> str:
        name = match[1]
        step, _, key = name.partition(".")
        if step.isdecimal():
            return str(laid.results.get(int(step), {}).get(key, match[0]))
        return laid.ids.get(name, match[0])

    return _PLACE.sub(found, value)


def _difference(expected: Expected, answer: Answer) -> str:
    """Pure. What is not as expected; empty for nothing."""
    if (answer.status, answer.code) != (expected.status, expected.code):
        return f"{answer.status} {answer.code}, not {expected.status} {expected.code}"
    result = answer.result or {}
    wrong = [name for name, value in expected.result.items() if result.get(name) != value]
    return f"the result's {', '.join(wrong)} is another" if wrong else ""
