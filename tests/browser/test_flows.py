"""What people do with a request besides approving and denying it, on a desktop and on a phone, without JavaScript."""

from datetime import UTC, datetime, timedelta

import pytest
from playwright.async_api import Page, ViewportSize, expect

from schemas.decisions import Approval
from tests.api.parked import PASSWORD, TENANT, Office
from tests.browser.conftest import DESKTOP, PHONE, NewPage, in_browser, shoot
from tests.browser.test_pages import sign_in

pytestmark = [
    in_browser,
    pytest.mark.parametrize(("device", "viewport"), [("desktop", DESKTOP), ("phone", PHONE)], ids=["desktop", "phone"]),
]

Served = tuple[Office, str]


async def fits(page: Page, name: str, device: str, viewport: ViewportSize) -> None:
    assert await shoot(page, f"{name}-{device}") == viewport["width"]


async def now(office: Office, approval: Approval) -> Approval:
    found = await office.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    return found


async def test_two_people_and_one_who_proves_that_it_is_them(
    served: Served, new_page: NewPage, device: str, viewport: ViewportSize
) -> None:
    office, base = served
    approval = await office.park(people=2, proof="reauthenticated", amount=31_240, currency="USD")
    for username, said in (("ana", "You have done your part."), ("ben", "Approved, being carried out")):
        page = await new_page(viewport=viewport)
        await sign_in(page, base, f"/approvals/{approval.approval_id}", username)
        await fits(page, f"to-prove-{username}", device, viewport)
        decision = page.locator("#decide")
        await decision.get_by_label("Your password").fill("not this one")
        await decision.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("alert")).to_be_visible()
        assert office.temporal.signals == []
        await page.locator("#decide").get_by_label("Your password").fill(PASSWORD)
        await page.locator("#decide").get_by_role("button", name="Approve").click()
        await expect(page.get_by_text(said)).to_be_visible()
    assert office.temporal.verdicts() == ["approve"]
    assert [each.proof is not None for each in (await now(office, approval)).decisions] == [True, True]


async def test_more_time(served: Served, new_page: NewPage, device: str, viewport: ViewportSize) -> None:
    office, base = served
    approval = await office.park(expires_in=timedelta(minutes=20))
    page = await new_page(viewport=viewport, scheme="dark")
    await sign_in(page, base, f"/approvals/{approval.approval_id}")
    await page.get_by_label("Why").fill("The warehouse looks for the parcel.")
    await page.get_by_role("button", name="Give it more time").click()
    await expect(page.get_by_text("The warehouse looks for the parcel.")).to_be_visible()
    await fits(page, "more-time", device, viewport)
    later = await now(office, approval)
    assert later.expires_at == approval.expires_at.replace(microsecond=0) + timedelta(hours=1)
    assert later.status == "open"


async def test_one_reads_and_another_takes_over(
    served: Served, new_page: NewPage, device: str, viewport: ViewportSize
) -> None:
    office, base = served
    approval = await office.park()
    path = f"/approvals/{approval.approval_id}"
    ana, ben = await new_page(viewport=viewport), await new_page(viewport=viewport, scheme="dark")
    await sign_in(ben, base, path, "ben")
    await sign_in(ana, base, path)
    await ana.get_by_role("button", name="I am reading this").click()
    await expect(ana.get_by_role("button", name="Let it go")).to_be_visible()
    # The page that ben still has open decides nothing now.
    await ben.get_by_role("button", name="Approve").click()
    await expect(ben.get_by_text("Ana Example is reading it.")).to_be_visible()
    await fits(ben, "read-by-another", device, viewport)
    assert (await now(office, approval)).decisions == ()
    await ben.goto(base)
    await expect(ben.get_by_text("Ana Example")).to_be_visible()
    await fits(ben, "inbox-read-by-another", device, viewport)
    await ben.goto(base + path)
    await ben.get_by_role("button", name="Take over").click()
    await ben.get_by_role("button", name="Approve").click()
    await expect(ben.get_by_text("Approved, being carried out")).to_be_visible()
    assert [each.approver for each in (await now(office, approval)).decisions] == ["ben"]


async def test_somebody_decides_for_another(
    served: Served, new_page: NewPage, device: str, viewport: ViewportSize
) -> None:
    office, base = served
    await office.ledger.principals.add_user(TENANT, "mei", "Mei Example", PASSWORD, ["clerk"])
    approval = await office.park()
    ana = await new_page(viewport=viewport)
    await sign_in(ana, base, "/account")
    away = ana.locator("form", has=ana.get_by_label("Their username"))
    await away.get_by_label("Their username").fill("mei")
    await away.get_by_label("Last day").fill((datetime.now(UTC) + timedelta(days=7)).date().isoformat())
    await away.get_by_label("Why").fill("On leave")
    await away.get_by_label("Your password").fill(PASSWORD)
    await away.get_by_role("button", name="Let them decide").click()
    await expect(ana.get_by_text("mei decides for you")).to_be_visible()
    await fits(ana, "account-away", device, viewport)
    mei = await new_page(viewport=viewport)
    await sign_in(mei, base, f"/approvals/{approval.approval_id}", "mei")
    await expect(mei.get_by_text("You decide this for")).to_be_visible()
    await fits(mei, "decided-for-another", device, viewport)
    await mei.get_by_role("button", name="Approve").click()
    await expect(mei.get_by_text("Approved, being carried out")).to_be_visible()
    (decision,) = (await now(office, approval)).decisions
    assert (decision.approver, decision.on_behalf_of) == ("mei", "ana")


async def test_several_are_found_and_reviewed_together(
    served: Served, new_page: NewPage, device: str, viewport: ViewportSize
) -> None:
    office, base = served
    cancelled = [await office.park(tool="cancel_order", title=f"Cancel order ord_{n}") for n in range(3)]
    refund = await office.park()
    page = await new_page(viewport=viewport)
    await sign_in(page, base)
    await page.get_by_role("link", name="Cancel an order 3").click()
    for box in await page.get_by_role("checkbox", name="Review together").all():
        await box.check()
    await page.get_by_role("button", name="Review selected").click()
    await fits(page, "batch", device, viewport)
    # One of them is decided on another screen meanwhile.
    await office.decide(cancelled[0], "deny", reason="Not this one.")
    await page.get_by_role("button", name="Approve these 3").click()
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    await fits(page, "batch-done", device, viewport)
    assert [(await now(office, each)).status for each in cancelled] == ["denied", "granted", "granted"]
    assert (await now(office, refund)).status == "open"
    await page.goto(base)
    await page.get_by_label("Find a request or an order").fill(refund.request_id)
    await page.get_by_role("button", name="Find").click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(refund.title)


async def test_less_is_asked_for(served: Served, new_page: NewPage, device: str, viewport: ViewportSize) -> None:
    office, base = served
    approval = await office.park()
    page = await new_page(viewport=viewport, scheme="dark")
    await sign_in(page, base, f"/approvals/{approval.approval_id}")
    await page.get_by_role("link", name="Ask for less instead").click()
    await page.get_by_label("Amount").fill("400.00")
    await page.get_by_label("Why").fill("One of two items.")
    await page.get_by_role("button", name="Ask for this instead").click()
    await expect(page.get_by_role("alert")).to_contain_text("Nothing was changed.")
    await fits(page, "amendment-refused", device, viewport)
    await page.get_by_label("Amount").fill("210.00")
    await page.get_by_role("button", name="Ask for this instead").click()
    await expect(page.get_by_role("heading", level=1)).to_contain_text("Refund 210.00 USD")
    await expect(page.get_by_role("heading", name="What changed")).to_be_visible()
    await fits(page, "amended", device, viewport)
    assert (await now(office, approval)).status == "voided"
