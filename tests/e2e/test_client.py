"""The Python client against the whole stack, and its wheel in an environment that has nothing else."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from counterseal_client import AsyncCounterseal, Counterseal, Reply

from tests.e2e.running import Customer, RunningStack

ROOT = Path(__file__).parents[2]
RUN: dict[str, Any] = {
    "agent_id": "example-agent",
    "actor_id": "user_example",
    "tools": ["issue_refund", "lookup_orders"],
}


def refund(customer: Customer, amount: int) -> dict[str, object]:
    return {"order_id": customer.order_id, "amount_cents": amount, "currency": "USD", "reason_code": "damaged"}


def test_a_step_is_one_refund_whatever_run_does_it(stack: RunningStack) -> None:
    customer = stack.order()
    replies: list[Reply] = []
    with Counterseal(stack.info["api"], stack.info["service_token"]) as client:
        for _ in range(2):
            run = client.open_run(**RUN, customer_id=customer.customer_id, scope=customer.customer_id)
            assert {tool.name for tool in run.tools()} == set(RUN["tools"])
            assert run.call("lookup_orders", {"limit": 1}).ok
            replies.append(run.call("issue_refund", refund(customer, 4999), step="refund"))
            other = run.call("issue_refund", refund(customer, 5000), step="refund")
            assert (other.code, other.action, other.refused) == ("IDEMPOTENCY_CONFLICT", "repair_input", True)
    assert replies[0].status == "executed"
    assert replies[0] == replies[1]
    assert [each["amount"] for each in customer.effects()] == [4999]


async def test_a_parked_call_is_waited_for_or_withdrawn(stack: RunningStack) -> None:
    customer = await asyncio.to_thread(stack.order, paid=100_000)
    async with AsyncCounterseal(stack.info["api"], stack.info["service_token"]) as client:
        run = await client.open_run(**RUN, customer_id=customer.customer_id, scope=customer.customer_id)
        parked = await run.call("issue_refund", refund(customer, 31_240), step="refund")
        assert (parked.pending, parked.settled, parked.action) == (True, False, "wait")
        waiting = asyncio.create_task(run.wait(parked))
        assert (await asyncio.to_thread(customer.decide, "approve")).status_code == 200
        assert (await waiting).status == "executed"
        again = await run.call("issue_refund", refund(customer, 31_240), step="refund")
        assert (again.status, again.request_id) == ("executed", parked.request_id)
        second = await run.call("issue_refund", refund(customer, 30_000), step="another refund")
        assert (await run.withdraw(second)).status == "cancelled"
        assert (await run.withdraw(parked)).status == "executed"
    assert len(await asyncio.to_thread(customer.effects)) == 1


def test_a_refused_run_and_a_wrong_token_raise_nothing(stack: RunningStack) -> None:
    with Counterseal(stack.info["api"], "a-wrong-token") as client:
        run = client.open_run(**RUN, customer_id="cus_1", scope="1")
        assert run.refusal is not None
        assert run.call("issue_refund", {}, step="1").code == "UNAUTHENTICATED"
        assert client.run("a-wrong-token").tools().refusal is not None


def test_the_wheel_alone_calls_a_tool(stack: RunningStack, tmp_path: Path) -> None:
    uv = str(Path(sys.executable).with_name("uv"))
    environment = {**os.environ, "UV_PYTHON_DOWNLOADS": "never", "VIRTUAL_ENV": str(tmp_path / "venv")}

    def run(*command: str, **more: str) -> str:
        done = subprocess.run(
            command, env={**environment, **more}, cwd=tmp_path, capture_output=True, text=True, timeout=180
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run(uv, "build", "--quiet", "--wheel", "--out-dir", str(tmp_path), str(ROOT / "client"))
    (wheel,) = tmp_path.glob("*.whl")
    run(uv, "venv", "--quiet", "--python", sys.executable, str(tmp_path / "venv"))
    run(uv, "pip", "install", "--quiet", str(wheel))
    customer = stack.order()
    script = f"""
from counterseal_client import Counterseal
from counterseal_client.adapters import tool_json
with Counterseal({stack.info["api"]!r}) as client:
    run = client.run({customer.token!r}, scope={customer.customer_id!r})
    print(run.call("issue_refund", {refund(customer, 4999)!r}, step="refund").for_model())
"""
    said = run(str(tmp_path / "venv" / "bin" / "python"), "-I", "-W", "error", "-c", script)
    assert '"status":"executed"' in said
    assert len(customer.effects()) == 1
    installed = run(uv, "pip", "freeze").split()
    assert not any(each.startswith(("counterseal==", "temporalio", "openai", "langgraph")) for each in installed)
    with_types = tmp_path.glob("venv/lib/python*/site-packages/counterseal_client/py.typed")
    assert len([*with_types]) == 1
