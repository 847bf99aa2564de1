"""The measured gates as people see them: on desktop and phone, light, dark and on paper, without JavaScript."""

from datetime import UTC, datetime, timedelta
from random import Random

from playwright.async_api import Page, expect

from ledger.ledger import Ledger
from tests.api.parked import TENANT, Office, park
from tests.browser.conftest import SCREENSHOTS, NewPage, in_browser, shoot, shoot_all
from tests.browser.test_pages import HOSTILE, sign_in
from tests.ledger.refunds import Refund, decision, new_binding

pytestmark = in_browser

Served = tuple[Office, str]
# rule, how many were asked for, how many of ten are approved
RULES = (("over_threshold", 60, 10), ("fraud_flag", 40, 8), ("customer_24h", 30, 4), ("likely_duplicate", 7, 9))


async def fill(ledger: Ledger) -> None:
    """A month of a small shop: gates of every kind, some of it undecided, two people of whom one hardly reads."""
    chance, now = Random(7), datetime.now(UTC)
    for rule, asked, of_ten in RULES:
        for n in range(asked):
            approval = await park(ledger, rule=rule, requested_at=now - timedelta(days=chance.uniform(0, 29)))
            if n % 15 == 14:
                await ledger.approvals.withdraw(approval.request_id, "support-bot")
                continue
            who = ("ana", "ben")[n % 3 == 0]
            await ledger.approvals.viewed(approval, who)
            verdict = "approve" if n % 10 < of_ten else "deny"
            made = decision(approval, verdict, approver=who)
            await ledger.approvals.decide(made, "token", (), "api" if n % 20 == 7 else "page")
            took = timedelta(minutes=chance.lognormvariate(3, 1.2))
            read = timedelta(seconds=chance.uniform(1, 12) if who == "ana" else chance.uniform(10, 90))
            await _backdate(ledger, made.decision_id, approval.requested_at + took, read)
    await park(ledger, rule="over_threshold", requested_at=now - timedelta(hours=5), expires_in=timedelta(minutes=30))
    await park(ledger, tool="cancel_order", rule=HOSTILE.replace("\n", " "))
    for n in range(80):
        binding = new_binding(tenant=TENANT, agent_id=f"bot-{n}")
        record = await Refund(1_000 + n, binding=binding, available=500 if n % 9 == 0 else 10_000).admit(ledger)
        change = "UPDATE calls SET created_at = $2 WHERE request_id = $1"
        await ledger.system.execute(change, record.request_id, now - timedelta(days=chance.uniform(0, 29)))


async def _backdate(ledger: Ledger, decision_id: str, at: datetime, read: timedelta) -> None:
    change = "UPDATE decisions SET decided_at = $2 WHERE decision_id = $1 RETURNING approval_id"
    approval_id = await ledger.system.fetchval(change, decision_id, at)
    await ledger.system.execute("UPDATE views SET at = $2 WHERE approval_id = $1", approval_id, at - read)


async def test_it_fits_the_screen(served: Served, page: Page) -> None:
    office, base = served
    await fill(office.ledger)
    await sign_in(page, base, "/stats")
    await expect(page.get_by_text("This gate asks for nothing: raise the threshold").first).to_be_visible()
    await expect(page.get_by_text("Agents ask for what people refuse").first).to_be_visible()
    await expect(page.get_by_text("Too few decisions to say").first).to_be_visible()
    await shoot_all(page, "stats")
    await page.get_by_text("The numbers").click()
    await expect(page.get_by_role("columnheader", name="Held for a person")).to_be_visible()
    await shoot_all(page, "stats-numbers")
    # On paper the ground is white, whatever the screen's.
    for scheme in ("light", "dark"):
        await page.emulate_media(media="print", color_scheme=scheme)
        await _is_dark_on_white(page)
        await shoot(page, f"stats-print-{scheme}")


async def _is_dark_on_white(page: Page) -> None:
    ink = await page.evaluate("getComputedStyle(document.body).color")
    assert ink == "rgb(29, 36, 35)"
    assert await page.evaluate("getComputedStyle(document.querySelector('.chart .held')).fill") == "rgb(31, 95, 80)"


async def test_paper_has_the_numbers_and_no_controls(served: Served, new_page: NewPage) -> None:
    office, base = served
    await office.park()
    page = await new_page()
    await sign_in(page, base, "/stats")
    table = page.locator(".chart table")
    await expect(table).not_to_be_visible()
    await page.emulate_media(media="print")
    await expect(page.locator("form.period")).not_to_be_visible()
    await expect(page.locator("nav.filters")).not_to_be_visible()
    # What is folded on the screen is unfolded on paper.
    assert (await table.bounding_box() or {"height": 0})["height"] > 100
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    printed = await page.pdf(path=SCREENSHOTS / "stats.pdf", format="A4")
    assert printed.startswith(b"%PDF")


async def test_another_period_and_action_are_chosen_without_a_script(served: Served, page: Page) -> None:
    office, base = served
    long_ago = datetime.now(UTC) - timedelta(days=90)
    await office.park(rule="of_old", requested_at=long_ago)
    await sign_in(page, base, "/stats")
    await expect(page.get_by_text("Nobody was asked anything in that time.")).to_be_visible()
    await page.get_by_label("Asked from").fill(long_ago.date().isoformat())
    await page.get_by_role("button", name="Show").click()
    await expect(page.get_by_text("of_old")).to_be_visible()
    await page.get_by_role("navigation", name="Filter by action").get_by_role("link", name="Cancel an order").click()
    await expect(page.get_by_text("Nobody was asked anything in that time.")).to_be_visible()
    await expect(page.get_by_label("Asked from")).to_have_value(long_ago.date().isoformat())
    await page.get_by_role("link", name="The last 30 days").click()
    await expect(page.get_by_label("Asked from")).not_to_have_value(long_ago.date().isoformat())
    await expect(page.get_by_role("navigation", name="Filter by action").locator("[aria-current]")).to_contain_text(
        "Cancel"
    )
