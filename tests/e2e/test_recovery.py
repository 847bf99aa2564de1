"""Everything dies; the next start goes on from what was committed."""

from pathlib import Path

import psutil

from runtime.stack.child import wait_until_ended
from tests.e2e.running import Customer, RunningStack


def test_parked_calls_survive_sigkill_of_everything(tmp_path: Path) -> None:
    data = tmp_path / "data"
    stack = RunningStack.start(data)
    customers = [stack.order() for _ in range(5)]
    parked = [customer.refund(25_000).json() for customer in customers]
    assert [each["code"] for each in parked] == ["PENDING_APPROVAL"] * 5
    first, started = stack.info, psutil.Process(stack.process.pid).children(recursive=True)
    stack.kill_everything()
    assert wait_until_ended(started, seconds=20) == []

    stack = RunningStack.start(data)
    try:
        assert stack.info | {"pids": first["pids"]} == first
        for customer, call in zip(customers, parked, strict=True):
            customer.stack = stack
            assert customer.progress(call["request_id"], wait=0)["status"] == "pending_approval"
        for customer, call in zip(customers, parked, strict=True):
            assert customer.decide("approve").status_code == 200
            assert customer.progress(call["request_id"])["status"] == "executed"
            _assert_paid_once(customer, 25_000)
    finally:
        assert stack.stop() == 0


def _assert_paid_once(customer: Customer, amount: int) -> None:
    assert [each["amount"] for each in customer.effects()] == [amount]
    assert customer.posts() == 1
