"""Single calls into the service, with everything that came back of them."""

import secrets
from dataclasses import dataclass, field
from typing import Any

import httpx
from pydantic import JsonValue
from temporalio.client import WorkflowExecutionStatus

from schemas.codes import Code
from schemas.diagnostics import BoundaryName
from schemas.ids import key_hash, workflow_id
from tests.canary.planted import Secret, token
from tests.canary.world import TENANT, World
from tests.service import refund_arguments, until

HELD = 25_000
FREE = 4_000
_WAIT_SECONDS = 20


@dataclass
class Remote:
    """What the account of a call has to say of the remote system that failed."""

    base: str
    reached: BoundaryName


@dataclass
class Probe:
    """One call, or one request that never became one; `expected` is what its last answer has to say."""

    name: str
    expected: Code
    posts: list[httpx.Response] = field(default_factory=list[httpx.Response])
    gets: list[httpx.Response] = field(default_factory=list[httpx.Response])
    run_token: Secret | None = None
    request_id: str | None = None
    workflow_id: str | None = None
    approval_id: str | None = None
    accounts: int = 0
    """How many accounts of it an operator has to find, at least."""
    remote: Remote | None = None
    own_failure: bool = False
    """Whether an exception of ours is kept in its accounts, which quotes what it was raised with."""
    other: list[httpx.Response] = field(default_factory=list[httpx.Response])
    """Pages that failed with it."""

    @property
    def reply(self) -> dict[str, Any]:
        """The last answer to the agent, which has to be the reply object."""
        return (self.gets or self.posts)[-1].json()

    def request_ids(self) -> set[str]:
        """Of all answers: those that never became a call have one of their own."""
        return {answer.json()["request_id"] for answer in self.posts}

    def headers(self) -> dict[str, str]:
        assert self.run_token is not None
        return {"Authorization": f"Bearer {self.run_token.text}"}


async def opened(world: World, name: str, expected: Code, customer_id: str, **more: Any) -> Probe:
    """A probe with a run of its own."""
    run = await world.open_run(customer_id)
    return Probe(name, expected, run_token=token(run.token), **more)


async def post(world: World, probe: Probe, tool: str, arguments: dict[str, Any], *, wait: int | None = None) -> None:
    """Call a tool; the last answer names the call. Where the outcome stays unknown nobody waits for it."""
    if wait is None:
        wait = 0 if probe.expected is Code.OUTCOME_UNKNOWN else _WAIT_SECONDS
    body = {"tool": tool, "arguments": arguments}
    answer = await world.api.post("/v1/tool-calls", params={"wait_seconds": wait}, json=body, headers=probe.headers())
    probe.posts.append(answer)
    probe.request_id = answer.json()["request_id"]
    key = str(arguments.get("idempotency_key", probe.request_id))
    probe.workflow_id = workflow_id(TENANT, tool, key_hash(key))


async def ask(world: World, probe: Probe) -> dict[str, Any]:
    """Ask for the call's progress, until it says more than that it goes on."""

    async def rested() -> dict[str, Any] | None:
        answer = await world.api.get(f"/v1/tool-calls/{probe.request_id}", headers=probe.headers())
        assert answer.status_code == 200, (probe.name, answer.status_code)
        probe.gets.append(answer)
        return None if answer.json()["code"] == Code.IN_PROGRESS else answer.json()

    return await until(rested)


async def known(world: World, probe: Probe) -> None:
    """Wait until the ledger has the call, so that it can be asked for."""

    async def found() -> bool | None:
        return await world.database.knows(probe.request_id or "") or None

    await until(found)


async def rest(world: World, probe: Probe) -> None:
    """Wait until the call's accounts are written and its workflow has ended; one that would go on looking is ended."""

    async def written() -> bool | None:
        return await world.database.accounts(probe.request_ids()) >= probe.accounts or None

    async def ended() -> bool | None:
        return (await handle.describe()).status is not WorkflowExecutionStatus.RUNNING or None

    await until(written)
    if probe.workflow_id is None:
        return
    handle = world.undecoded.get_workflow_handle(probe.workflow_id)
    if probe.reply["status"] in ("outcome_unknown", "pending_approval"):
        await handle.terminate()
    await until(ended)


def arguments_of_refund(world: World, order: dict[str, Any], amount: int) -> dict[str, JsonValue]:
    return refund_arguments(order, amount, note=world.planted.note)


async def refund(world: World, expected: Code, **more: Any) -> Probe:
    """A refund that needs nobody."""
    order = await world.shop.order(50_000)
    probe = await opened(world, "issue_refund", expected, order["customer_id"], **more)
    await post(world, probe, "issue_refund", arguments_of_refund(world, order, FREE))
    await ask(world, probe)
    return probe


async def held(world: World, name: str, expected: Code, **more: Any) -> Probe:
    """A refund that waits for a person."""
    order = await world.shop.order(50_000)
    probe = await opened(world, name, expected, order["customer_id"], **more)
    await post(world, probe, "issue_refund", arguments_of_refund(world, order, HELD), wait=_WAIT_SECONDS)
    assert probe.reply["code"] == Code.PENDING_APPROVAL, probe.reply
    found = await world.people["ana"].get("/", params={"find": probe.request_id or ""})
    probe.approval_id = found.headers["location"].rpartition("/")[2]
    await ask(world, probe)
    return probe


async def approved_refund(world: World, expected: Code, **more: Any) -> Probe:
    """A refund that a person approves, so that it is sent by the worker that holds the credential."""
    probe = await held(world, "issue_refund, approved", expected, **more)
    await decide(world, probe, "approve")
    await ask(world, probe)
    return probe


async def decide(world: World, probe: Probe, decision: str, reason: str = "") -> httpx.Response:
    """Decide through the approver's API what was shown there."""
    path = f"/v1/approvals/{probe.approval_id}"
    headers = {"Authorization": f"Bearer {world.approver_token}"}
    shown = (await world.api.get(path, headers=headers)).json()
    body = {"decision": decision, "action_digest": shown["action_digest"], "reason": reason}
    answer = await world.api.post(f"{path}/decision", json=body, headers=headers)
    assert answer.status_code == 200, answer.status_code
    return answer


async def cancel(world: World, expected: Code, **more: Any) -> Probe:
    """A cancellation, which the store carries out."""
    order = await world.shop.order(10_000, status="open")
    probe = await opened(world, "cancel_order", expected, order["customer_id"], **more)
    arguments = {
        "order_id": order["order_id"],
        "reason_code": "no_longer_needed",
        "idempotency_key": secrets.token_hex(16),
    }
    await post(world, probe, "cancel_order", arguments)
    await ask(world, probe)
    return probe


async def lookup(world: World, expected: Code, **more: Any) -> Probe:
    """A read, answered by the store."""
    order = await world.shop.order(10_000)
    probe = await opened(world, "lookup_orders", expected, order["customer_id"], **more)
    await post(world, probe, "lookup_orders", {})
    await ask(world, probe)
    return probe
