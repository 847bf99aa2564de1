"""The pages about the client do what they say: every block of Python on them is run, in their order."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.demo_orders import GRETA, WITHDRAWN_REFUND, demo_orders
from tests.docs.written import ROOT, fenced
from tests.e2e.running import RunningStack

PAGES = ("docs/how-to/call-from-python.md",)


@pytest.mark.parametrize("page", PAGES)
def test_every_block_runs(
    page: str, stack: RunningStack, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (order,) = [each for each in demo_orders(datetime.now(UTC)) if each.order_id == WITHDRAWN_REFUND]
    customer = stack.order(paid=sum(each.captured_cents for each in order.payments))
    monkeypatch.setenv("SERVICE", stack.info["service_token"])
    blocks = [
        content for language, content in fenced((ROOT / page).read_text(encoding="utf-8")) if language == "python"
    ]
    assert blocks
    namespace: dict[str, Any] = {"__name__": "page"}
    for block in blocks:
        for written, real in (
            ("http://127.0.0.1:8080", stack.info["api"]),
            (GRETA, customer.customer_id),
            (WITHDRAWN_REFUND, customer.order_id),
            ("conversation-42", customer.customer_id),
        ):
            block = block.replace(written, real)
        exec(compile(block, page, "exec"), namespace)
    said = capsys.readouterr().out.splitlines()
    assert said[0].startswith("executed Done: refunded 49.99 USD")
    assert said[1] == "hold"
    assert said[2].startswith("wait 20")
    assert said[3] == "cancelled"
    assert customer.order_id in said[4]
    assert [each["amount"] for each in customer.effects()] == [4999]
