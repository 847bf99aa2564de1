"""The link of a notice only opens a page, whoever follows it; and what was not told fits on any screen."""

from zoneinfo import ZoneInfo

import httpx
from playwright.async_api import Page, expect

from ledger.ledger import Ledger
from notices.wording import Matter, message
from schemas.decisions import Approval
from tests.api.parked import TENANT, Office
from tests.browser.conftest import NewPage, in_browser, shoot_all
from tests.browser.test_pages import sign_in

pytestmark = in_browser

Served = tuple[Office, str]
SCANNERS = ("HEAD", "GET", "OPTIONS", "POST", "PUT", "DELETE")


def link_of(approval: Approval, base: str) -> str:
    """As a notice has it."""
    matter = Matter(
        "ntc_" + "0" * 32, "approval_requested", TENANT, approval.requested_at, approval_id=approval.approval_id
    )
    link = message(matter, base, ZoneInfo("UTC")).link
    assert link is not None
    return link


async def undecided(office: Office, approval: Approval) -> bool:
    found = await office.ledger.approvals.get(TENANT, approval.approval_id)
    decisions = await office.ledger.system.fetchval("SELECT count(*) FROM decisions")
    return found is not None and found.status == "open" and decisions == 0 and not office.temporal.signals


async def test_following_the_link_decides_nothing(served: Served, new_page: NewPage) -> None:
    office, base = served
    approval = await office.park()
    link = link_of(approval, base)
    async with httpx.AsyncClient(trust_env=False, follow_redirects=True) as scanner:
        for method in SCANNERS:
            await scanner.request(method, link)
            await scanner.request(method, f"{link}?decision=approve&action_digest={approval.action_digest}")
            await scanner.request(method, f"{link}/decision", data={"decision": "approve"})
    stranger = await new_page(scripts=True)
    await stranger.goto(link)
    await expect(stranger.get_by_label("Username")).to_be_visible()
    # A browser that fetches what it is shown in advance, as the person who may decide.
    person = await new_page(scripts=True)
    await sign_in(person, base, f"/approvals/{approval.approval_id}")
    await person.goto(link)
    await person.reload()
    addresses = await person.locator("a[href^='/']").evaluate_all("links => links.map(each => each.href)")
    for address in addresses:
        await person.request.get(address)
        await person.request.head(address)
    assert await undecided(office, approval)


async def lose(ledger: Ledger) -> None:
    """One that was given up, one that is being tried."""
    await ledger.notices.route(lambda due: ["finance-mail-of-the-whole-company"])
    for notice_id in await ledger.notices.unstarted(0):
        await ledger.notices.failed(notice_id, "connect_failed")
    await ledger.notices.give_up((await ledger.notices.unstarted(0))[0])


async def test_what_was_not_told_fits_and_is_sent_again(served: Served, page: Page) -> None:
    office, base = served
    await office.park()
    await lose(office.ledger)
    await sign_in(page, base, "/operations", "olga")
    await expect(page.get_by_role("heading", name="Notices not delivered 1")).to_be_visible()
    await shoot_all(page, "operations-notices")
    await page.get_by_role("button", name="Try again").click()
    await expect(page.get_by_role("button", name="Try again")).to_have_count(0)
    assert len(await office.ledger.notices.recent(tenant=TENANT, state="sending", limit=10)) == 2
