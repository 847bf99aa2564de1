"""Single keys move, open and focus, and decide nothing by themselves; without scripts nothing is said of them."""

from datetime import timedelta

from playwright.async_api import Page, expect

from tests.api.parked import Office, confirm
from tests.browser.conftest import NewPage, in_browser, shoot
from tests.browser.test_pages import sign_in

pytestmark = in_browser


async def ready(page: Page) -> None:
    """Until the script has run, which adds the button of its help."""
    await expect(page.get_by_role("button", name="Keys")).to_be_visible()


async def test_a_person_decides_with_the_keyboard_alone(served: tuple[Office, str], new_page: NewPage) -> None:
    office, base = served
    first = await office.park(title="The first", tool="cancel_order", expires_in=timedelta(hours=1))
    await office.park(title="The second", tool="cancel_order", expires_in=timedelta(hours=2))
    page = await new_page(scripts=True)
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    await sign_in(page, base)
    await page.goto(f"{base}/?tool=cancel_order")
    await ready(page)
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="The first")).to_be_focused()
    await page.keyboard.press("j")
    await page.keyboard.press("j")
    await expect(page.get_by_role("link", name="The second")).to_be_focused()
    await page.keyboard.press("k")
    await page.keyboard.press("o")
    await expect(page.get_by_role("heading", level=1)).to_have_text("The first")
    await page.wait_for_load_state("load")
    # To the button, not through it; and away again.
    await ready(page)
    await page.keyboard.press("a")
    await expect(page.get_by_role("button", name="Approve")).to_be_focused()
    await expect(page.get_by_text("Press Enter to approve.")).to_be_visible()
    await shoot(page, "keys-approve")
    await page.keyboard.press("d")
    await expect(page.get_by_label("Reason to deny")).to_be_focused()
    await expect(page.get_by_text("Press Enter to approve.")).to_have_count(0)
    # What is typed is text; and combinations are the browser's.
    await page.keyboard.type("aud?")
    await expect(page.get_by_label("Reason to deny")).to_have_value("aud?")
    await page.keyboard.press("Tab")
    await page.keyboard.press("Alt+u")
    await expect(page.get_by_role("heading", level=1)).to_have_text("The first")
    assert office.temporal.signals == []
    await page.keyboard.press("u")
    await page.wait_for_url(f"{base}/?tool=cancel_order")
    await ready(page)
    await page.keyboard.press("j")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("The first")
    await ready(page)
    await page.keyboard.press("a")
    await page.keyboard.press("Enter")
    await expect(page.get_by_text("Approved, being carried out")).to_be_visible()
    await expect(page.get_by_role("link", name="Next: The second")).to_be_visible()
    assert [signed.approval_id for _, _, signed in office.temporal.signals] == [first.approval_id]
    # Nobody touches the page: it looks again by itself.
    await confirm(office.ledger, first.request_id)
    await expect(page.get_by_text("Approved and done")).to_be_visible()
    assert problems == []


async def test_the_key_leads_to_the_password_that_approving_takes(
    served: tuple[Office, str], new_page: NewPage
) -> None:
    office, base = served
    approval = await office.park(proof="reauthenticated")
    page = await new_page(scripts=True)
    await sign_in(page, base, f"/approvals/{approval.approval_id}")
    await ready(page)
    await page.keyboard.press("a")
    await expect(page.get_by_label("Your password")).to_be_focused()
    await expect(page.get_by_text("Press Enter to approve.")).to_have_count(0)


async def test_the_help_says_the_keys_and_turns_them_off(served: tuple[Office, str], new_page: NewPage) -> None:
    office, base = served
    await office.park()
    page = await new_page(scripts=True)
    await sign_in(page, base)
    await ready(page)
    await page.keyboard.press("?")
    helped = page.get_by_role("dialog", name="Keys")
    await expect(helped).to_be_visible()
    await shoot(page, "keys-help")
    await helped.get_by_label("Use these keys").uncheck()
    await page.keyboard.press("Escape")
    await expect(helped).to_be_hidden()
    await page.keyboard.press("j")
    await expect(page.locator("main .rows a").first).not_to_be_focused()
    await page.reload()
    await ready(page)
    await page.keyboard.press("?")
    await expect(helped).to_be_hidden()
    # They come back where they were turned off.
    await page.get_by_role("button", name="Keys").click()
    await helped.get_by_label("Use these keys").check()
    await helped.get_by_role("button", name="Close").click()
    await page.keyboard.press("j")
    await expect(page.locator("main .rows a").first).to_be_focused()
    without = await new_page()
    await sign_in(without, base)
    await expect(without.get_by_text("Keys")).to_have_count(0)
