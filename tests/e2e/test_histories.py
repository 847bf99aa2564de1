"""An operator reads histories: in Temporal's UI as the stack shows it, and with Temporal's own command line."""

import asyncio
import json
import subprocess
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import expect
from temporalio.client import Client

from tests.browser.conftest import NewPage, browser, in_browser, new_page, shoot
from tests.e2e.running import RunningStack
from tests.service import until

__all__ = ["browser", "new_page"]

pytestmark = in_browser
PASSWORD = "an example of a password"
NOTE = "The customer sent photos of the damage."


@pytest.fixture(scope="module")
def operator(stack: RunningStack) -> str:
    """The name of an operator."""
    program(stack, "users", "add", "olga", "--role", "operator", typed=f"{PASSWORD}\n")
    return "olga"


def program(stack: RunningStack, *arguments: str, name: str = "counterseal", typed: str = "") -> str:
    """What a program of the environment prints."""
    command = [Path(sysconfig.get_path("scripts")) / name, *arguments]
    data = ["--data", stack.data] if name == "counterseal" else []
    done = subprocess.run([*command, *data], input=typed, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


async def parked(stack: RunningStack) -> tuple[str, str, str]:
    """A refund that waits for a person: its request id, its approval's, and its workflow's."""
    customer = await asyncio.to_thread(stack.order)
    request_id = (await asyncio.to_thread(customer.refund, 31_240, NOTE)).json()["request_id"]
    approval_id = (await asyncio.to_thread(customer.waiting))["approval_id"]
    temporal = await Client.connect(stack.info["temporal"])

    async def found() -> str | None:
        return next(iter([each.id async for each in temporal.list_workflows(f'ApprovalId = "{approval_id}"')]), None)

    return request_id, approval_id, await until(found)


def shown(stack: RunningStack) -> Sequence[dict[str, Any]]:
    """What is recorded of payloads that somebody was shown."""
    return [each["body"] for each in json.loads(program(stack, "report", "access", "--histories", "--json"))["events"]]


async def test_an_operator_reads_a_history_in_temporals_ui(
    stack: RunningStack, new_page: NewPage, operator: str
) -> None:
    request_id, approval_id, _ = await parked(stack)
    page = await new_page(scripts=True)
    await page.goto(f"{stack.info['api']}/approvals/{approval_id}")
    await page.get_by_label("Username").fill(operator)
    await page.get_by_label("Password").fill(PASSWORD)
    await page.get_by_role("button", name="Sign in").click()
    await page.get_by_role("link", name="Open the workflow in Temporal").click()
    await expect(page.get_by_text(NOTE)).to_be_visible()
    await expect(page.get_by_text("Approval deadline").first).to_be_visible()
    await shoot(page, "stack-temporal-operator")
    recorded = [each for each in await asyncio.to_thread(shown, stack) if each["principal"] == operator]
    assert {each["through"] for each in recorded} == {"session"}
    assert [request_id] in [each["calls"] for each in recorded]

    await page.get_by_text("User Metadata").first.click()
    details, now = (page.frame_locator(f"#user-metadata-{name}") for name in ("details", "current-details"))
    await expect(now.get_by_text(f"approval {approval_id}")).to_be_visible()
    async with page.context.expect_page() as opened:
        await details.get_by_role("link", name=request_id).click()
    assert (await opened.value).url == f"{stack.info['api']}/calls/{request_id}"


async def test_temporals_command_line_reads_a_history_with_an_operators_token(stack: RunningStack) -> None:
    request_id, _, workflow_id = await parked(stack)
    place = ("--address", stack.info["temporal"], "--workflow-id", workflow_id, "--detailed")

    def show(*more: str) -> str:
        return program(stack, "workflow", "show", *place, *more, name="temporal")

    bearer = f"Bearer {stack.info['operator_token']}"
    decoded = await asyncio.to_thread(show, "--codec-endpoint", f"{stack.info['api']}/codec", "--codec-auth", bearer)
    assert f"input[0].arguments.note: {NOTE}" in decoded
    assert f"{stack.info['api']}/calls/{request_id}" in decoded
    stored = await asyncio.to_thread(show)
    assert NOTE not in stored
    assert request_id not in stored
