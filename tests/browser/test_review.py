"""An operator settles an outcome that nobody knows, in a real browser without JavaScript, on desktop and phone."""

import re

from playwright.async_api import Page, expect

from schemas.effects import AlertKind
from tests.api.parked import TENANT, Office, ask_for_review, lose_answer
from tests.browser.conftest import NewPage, in_browser, shoot_all
from tests.browser.test_pages import HOSTILE, sign_in

pytestmark = in_browser

Served = tuple[Office, str]
EVIDENCE = "Seen in the gateway's dashboard, as succeeded.\nIts metadata has our operation id."
ALERTS: tuple[AlertKind, ...] = ("effect_reversed", "effect_missing", "effect_after_all")


async def in_review(office: Office, *, twice: bool = False) -> str:
    """The request id of an approved refund whose outcome is an operator's to settle."""
    approval = await office.park()
    await office.decide(approval, "approve")
    await lose_answer(office.ledger, approval.request_id)
    await ask_for_review(office.ledger, approval.request_id, "found_twice" if twice else "absent")
    return approval.request_id


async def test_find_out_and_settle(served: Served, new_page: NewPage) -> None:
    office, base = served
    request_id = await in_review(office)
    page = await new_page()
    await sign_in(page, base, username="olga")
    await page.get_by_role("link", name="Operations 1 open alert").click()
    await page.get_by_role("link", name=re.compile("^Issue a refund")).click()
    await expect(page.get_by_text("Not found at the other system").first).to_be_visible()
    yes = page.locator("form", has=page.get_by_role("heading", name="It happened"))
    await yes.get_by_label("Its id at the other system").fill("re_found")
    await yes.get_by_role("button").click()
    # The browser itself stops an empty field; spaces get through to the server.
    await expect(yes.get_by_label("How you know")).to_be_focused()
    await yes.get_by_label("How you know").fill(" " * 20)
    await yes.get_by_role("button").click()
    await expect(page.get_by_role("alert")).to_contain_text("Say how you know")
    await expect(page.get_by_label("Its id at the other system")).to_have_value("re_found")
    await yes.get_by_label("How you know").fill(EVIDENCE)
    await yes.get_by_role("button").click()
    await expect(page.get_by_role("heading", name="Record that it happened?")).to_be_visible()
    await expect(page.get_by_text("312.40 USD count as refunded, under the id re_found.")).to_be_visible()
    await page.get_by_label("Type the amount 312.40").fill("312.4")
    await page.get_by_role("button", name="Record that it happened").click()
    await expect(page.get_by_role("alert")).to_contain_text("That is not the amount.")
    await page.get_by_label("Type the amount 312.40").fill("312.40")
    await page.get_by_role("button", name="Record that it happened").click()
    await expect(page.get_by_role("status")).to_contain_text("Settled by olga: it happened, as re_found")
    await expect(page.get_by_role("blockquote")).to_have_text(EVIDENCE)
    await expect(page.get_by_role("link", name="Operations", exact=True).first).to_be_visible()
    record = await office.ledger.calls.read(request_id)
    assert (record.status, record.remote_id) == ("executed", "re_found")


async def test_an_alert_is_seen_to(served: Served, new_page: NewPage) -> None:
    office, base = served
    for kind in ("effect_reversed", "effect_after_all"):
        await add_alert(office, await in_review(office), kind)
    page = await new_page()
    await sign_in(page, base, "/operations", username="olga")
    await expect(page.get_by_role("button", name=re.compile("^Seen"))).to_have_count(4)
    await page.get_by_role("button", name=re.compile("Seen: Late failure")).click()
    await expect(page.get_by_role("button", name=re.compile("^Seen"))).to_have_count(3)
    await expect(page.get_by_text("Late failure")).to_have_count(0)


async def test_nothing_is_wider_than_the_screen(served: Served, page: Page) -> None:
    office, base = served
    absent, twice, settled = await in_review(office), await in_review(office, twice=True), await in_review(office)
    unknown = await office.park()
    await lose_answer(office.ledger, unknown.request_id)
    for kind in ALERTS:
        await add_alert(office, unknown.request_id, kind)
    await sign_in(page, base, "/operations", username="olga")
    await shoot_all(page, "operations-alerts")
    for name, request_id in (("absent", absent), ("twice", twice)):
        await page.goto(f"{base}/operations/review/{request_id}")
        await shoot_all(page, f"review-{name}")
    await page.goto(f"{base}/operations/review/{settled}")
    no = page.locator("form", has=page.get_by_role("heading", name="It did not happen"))
    await no.get_by_label("How you know").fill(f"{HOSTILE} {'x' * 300}")
    await no.get_by_role("button").click()
    await expect(page.get_by_label("Type the amount")).to_be_visible()
    await shoot_all(page, "review-confirm")
    await page.get_by_label("Type the amount").fill("1")
    await page.get_by_role("button", name="Record that it did not happen").click()
    await expect(page.get_by_role("alert")).to_contain_text("That is not the amount.")
    await shoot_all(page, "review-refused")
    await page.get_by_label("Type the amount").fill("312.40")
    await page.get_by_role("button", name="Record that it did not happen").click()
    await expect(page.get_by_role("status")).to_contain_text("it did not happen")
    await shoot_all(page, "review-settled")


async def add_alert(office: Office, request_id: str, kind: AlertKind) -> None:
    await office.ledger.system.execute(
        "INSERT INTO alerts (tenant, request_id, kind, at) VALUES ($1, $2, $3, now())", TENANT, request_id, kind
    )
