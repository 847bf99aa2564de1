"""A person and the whole stack: sign in, read, approve, and see the refund executed, here and in Temporal's UI."""

import asyncio

import pytest
from playwright.async_api import Page, ViewportSize, expect

from tests.browser.conftest import DESKTOP, PHONE, NewPage, browser, in_browser, new_page, shoot
from tests.e2e.running import RunningStack

__all__ = ["browser", "new_page"]

pytestmark = in_browser


@pytest.mark.parametrize(("looks", "viewport"), [("desktop", DESKTOP), ("phone", PHONE)])
async def test_sign_in_read_approve_and_see_it_executed(
    stack: RunningStack, new_page: NewPage, looks: str, viewport: ViewportSize
) -> None:
    page = await new_page(viewport=viewport)
    customer = await asyncio.to_thread(stack.order)
    call = (await asyncio.to_thread(customer.refund, 31_240, "The customer sent photos of the damage.")).json()
    await _sign_in(page, stack)
    await page.locator("a[href^='/approvals/']", has_text=f"of order {customer.order_id}").click()
    await expect(page.get_by_text("This cannot be undone.").first).to_be_visible()
    await expect(page.get_by_text("The customer sent photos of the damage.")).to_be_visible()
    assert await shoot(page, f"stack-approval-{looks}") == viewport["width"], "nothing is wider than the screen"
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Done: refunded 312.40 USD")).to_be_visible()
    assert await shoot(page, f"stack-executed-{looks}") == viewport["width"]
    effects = await asyncio.to_thread(customer.effects)
    assert [each["amount"] for each in effects] == [31_240]
    reply = await asyncio.to_thread(customer.progress, call["request_id"], 0)
    assert reply["status"] == "executed"


async def test_the_page_leads_to_the_workflow_in_temporals_ui(stack: RunningStack, new_page: NewPage) -> None:
    page = await new_page(scripts=True)
    customer = await asyncio.to_thread(stack.order)
    await asyncio.to_thread(customer.refund, 31_240)
    await asyncio.to_thread(customer.decide, "approve")
    await _sign_in(page, stack, "/history")
    await page.locator("a[href^='/approvals/']", has_text=f"of order {customer.order_id}").click()
    await expect(page.get_by_text("Done: refunded 312.40 USD")).to_be_visible()
    await page.get_by_role("link", name="Open the workflow in Temporal").click()
    await expect(page.get_by_text("Completed").first).to_be_visible()
    await expect(page.get_by_text("ToolCall").first).to_be_visible()
    # What it was about is not an approver's to see here.
    await expect(page.get_by_text("Payloads are shown to operators who are signed in to Counterseal")).to_be_visible()
    await expect(page.get_by_text("amount_cents")).to_have_count(0)
    await shoot(page, "stack-temporal")


async def _sign_in(page: Page, stack: RunningStack, path: str = "/") -> None:
    approver = stack.approver()
    await page.goto(stack.info["api"] + path)
    await page.get_by_label("Username").fill(approver["username"])
    await page.get_by_label("Password").fill(approver["password"])
    await page.get_by_role("button", name="Sign in").click()
    await expect(page.get_by_role("button", name="Sign out")).to_be_visible()
