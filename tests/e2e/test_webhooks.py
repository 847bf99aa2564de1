"""What changes at the gateway after a call has settled, as its webhooks tell the running stack."""

import time
from collections.abc import Callable
from typing import Any

from tests.e2e.running import Customer, RunningStack

_WITHIN = 30.0


def eventually(look: Callable[[], Any]) -> Any:
    deadline = time.monotonic() + _WITHIN
    while not (found := look()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return found


def executed(customer: Customer, amount: int) -> tuple[str, str]:
    """(request id, the refund's id at the gateway)"""
    reply = customer.refund(amount).json()
    assert reply["status"] == "executed", reply
    return reply["request_id"], customer.effects()[-1]["refund_id"]


def change(stack: RunningStack, refund_id: str, status: str) -> None:
    url = f"{stack.info['sandbox']['gateway']}/_refunds/{refund_id}"
    stack.http.post(url, json={"status": status}).raise_for_status()


def attempts(stack: RunningStack, object_id: str) -> list[dict[str, Any]]:
    return [each for each in stack.gateway("/_webhooks/deliveries")["deliveries"] if each["object_id"] == object_id]


def test_a_refund_that_fails_later_is_noticed_and_may_be_made_again(stack: RunningStack) -> None:
    customer = stack.order(paid=5_000)
    request_id, refund_id = executed(customer, 4_000)
    assert customer.refund(4_000).json()["code"] == "REFUND_EXCEEDS_PAID"
    change(stack, refund_id, "failed")
    failed = eventually(lambda: (reply := customer.progress(request_id, 0))["status"] == "failed" and reply)
    assert failed["code"] == "REMOTE_REFUSED"
    executed(customer, 3_999)
    told = eventually(lambda: [each for each in attempts(stack, refund_id) if each["type"] == "refund.failed"])
    assert told[0]["status"] == 200


def test_a_refund_that_is_pending_is_followed_to_its_end(stack: RunningStack) -> None:
    customer = stack.order()
    stack.fault("refund", "pending", customer.payment_id)
    request_id, refund_id = executed(customer, 4_000)
    assert customer.progress(request_id, 0)["result"]["status"] == "pending"
    change(stack, refund_id, "succeeded")
    eventually(lambda: customer.progress(request_id, 0)["result"]["status"] == "succeeded")


def test_a_webhook_may_come_before_the_answer_to_the_request_that_it_is_about(stack: RunningStack) -> None:
    customer = stack.order()
    url = f"{stack.info['sandbox']['gateway']}/_webhooks"
    stack.http.post(url, json={"do": "before_answer"}).raise_for_status()
    _, refund_id = executed(customer, 4_000)
    created = attempts(stack, refund_id)
    assert created, "it was delivered before the answer"
    assert {each["status"] for each in created} == {200}
    assert len(customer.effects()) == customer.posts() == 1
