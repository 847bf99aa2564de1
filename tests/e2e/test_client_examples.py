"""The client's examples run against the stack as they stand there, and each of their calls has one effect."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.written import ROOT, fenced
from tests.e2e.running import RunningStack

EXAMPLES = ROOT / "client" / "examples"
WAITING = {
    "langgraph_agent": "interrupted: issue_refund pending_approval",
    "openai_agents_sdk": "interrupted: ['issue_refund']",
    "pydantic_ai_agent": "deferred: ['issue_refund']",
    "temporal_agent": None,
}


def run_example(stack: RunningStack, name: str) -> list[str]:
    """The lines that it printed."""
    command = [sys.executable, "-W", "error", str(EXAMPLES / f"{name}.py"), str(ready_file(stack))]
    environment = {**os.environ, "LANGSMITH_TRACING": "false"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()


def ready_file(stack: RunningStack) -> Path:
    return stack.data.parent / f"{stack.data.name}.ready.json"


def refunds_of(stack: RunningStack, said: str) -> list[int]:
    """Of the order that is spoken of."""
    (mark,) = set(re.findall(r"ord_(\w+)", said))
    return [each["amount"] for each in stack.gateway("/_effects")["effects"] if each["payment_id"] == f"pay_{mark}"]


def test_every_example_is_run() -> None:
    assert {path.stem for path in EXAMPLES.glob("*.py")} == {*WAITING, "tool_json", "shop"}


def test_what_the_page_shows_is_in_an_example() -> None:
    page = (ROOT / "docs" / "how-to" / "use-your-agent-framework.md").read_text(encoding="utf-8")
    shown = [content for language, content in fenced(page) if language == "python"]
    assert len(shown) > len(WAITING)
    examples = [path.read_text(encoding="utf-8") for path in EXAMPLES.glob("*.py")]
    assert [block for block in shown if not any(block in example for example in examples)] == []
    assert [name for name in (*WAITING, "tool_json") if f"`client/examples/{name}.py`" not in page] == []


@pytest.mark.parametrize("name", WAITING)
def test_a_framework_waits_for_a_person_and_goes_on(stack: RunningStack, name: str) -> None:
    said = run_example(stack, name)
    assert said[:-1] == [*filter(None, [WAITING[name]])]
    assert said[-1].startswith("said: Done: refunded 312.40 USD")
    assert refunds_of(stack, said[-1]) == [31_240]


def test_each_dialect_calls_and_is_answered(stack: RunningStack) -> None:
    lines = [line.removeprefix("2 tools ") for line in run_example(stack, "tool_json")]
    chat, responses, anthropic = (json.loads(line) for line in lines)
    assert chat["role"] == "tool"
    assert responses["type"] == "function_call_output"
    block = anthropic["content"][0]
    told = [json.loads(each) for each in (chat["content"], responses["output"], block["content"])]
    assert [each["result"]["amount_cents"] for each in told] == [1000, 1001, 1002]
    assert refunds_of(stack, chat["content"]) == [1000, 1001, 1002]
