"""An operator turns a switch off and on in a real browser without JavaScript, on desktop and phone."""

from datetime import timedelta

from playwright.async_api import Page, expect

from ledger.streams import denials_of
from schemas.events import EgressDenied
from tests.api.parked import TENANT, Office, confirm, lose_answer
from tests.browser.conftest import NewPage, in_browser, shoot_all
from tests.browser.test_pages import HOSTILE, sign_in

pytestmark = in_browser

Served = tuple[Office, str]
REASON = "The gateway pays out twice.\nIts support looks into it."


async def test_turn_off_and_on_again(served: Served, new_page: NewPage) -> None:
    office, base = served
    approval = await office.park()
    page = await new_page()
    await sign_in(page, base, "/operations", username="olga")
    await page.get_by_role("link", name="Turn something off…").click()
    form = page.locator("form", has=page.get_by_label("What to turn off"))
    await form.get_by_label("What to turn off").select_option(label="Tools that move money")
    await form.get_by_label("Pause").check()
    await form.get_by_role("button").click()
    # The browser itself stops an empty field; spaces get through to the server.
    await expect(form.get_by_label("Why")).to_be_focused()
    await form.get_by_label("Why").fill("  ")
    await form.get_by_role("button").click()
    await expect(page.get_by_role("alert")).to_contain_text("Say why you turn it off.")
    await expect(form.get_by_label("Pause")).to_be_checked()
    await form.get_by_label("Why").fill(REASON)
    await form.get_by_role("button").click()
    await expect(page.get_by_role("heading", name="Turn off: Tools that move money?")).to_be_visible()
    await expect(page.get_by_text("1 call waits for a person.")).to_be_visible()
    assert await office.ledger.switches.off(TENANT) == []
    await page.get_by_role("button", name="Turn it off").click()
    await expect(page.get_by_role("heading", name="Switched off 1")).to_be_visible()
    await expect(page.get_by_role("blockquote")).to_have_text(REASON)
    (off,) = await office.ledger.switches.off(TENANT)
    assert (off.name, off.off_by, off.reason, off.deadlines) == ("class:money_movement", "olga", REASON, "pause")

    approver = await new_page()
    await sign_in(approver, base, f"/approvals/{approval.approval_id}")
    await expect(approver.get_by_text("Switched off: approving now would be refused.")).to_be_visible()
    await expect(approver.get_by_role("button", name="Approve")).to_have_count(0)
    await expect(approver.get_by_role("button", name="Deny")).to_be_visible()

    await page.get_by_role("link", name="Turn on…").click()
    await expect(page.get_by_text("Approving goes on, with the time that was left")).to_be_visible()
    await page.get_by_label("Why").fill("The gateway is mended.")
    await page.get_by_role("button", name="Turn it on").click()
    await expect(page.get_by_text("Everything is on.")).to_be_visible()
    await approver.reload()
    await expect(approver.get_by_role("button", name="Approve")).to_be_visible()


async def test_nothing_is_wider_than_the_screen(served: Served, page: Page) -> None:
    office, base = served
    await a_busy_day(office)
    approval = await office.park()
    await off_already(office, "class:money_movement", by="breaker", reason="200 in 1h, as many as the policy lets")
    await off_already(office, "agent:" + "a" * 200, reason=f"{HOSTILE} {'x' * 200}")
    await off_already(office, "vault", tenant="*", reason="An exercise")
    await sign_in(page, base, "/operations", username="olga")
    await shoot_all(page, "operations-switches")
    await page.goto(f"{base}/operations/switches")
    await shoot_all(page, "switches")
    form = page.locator("form", has=page.get_by_label("What to turn off"))
    await form.get_by_label("What to turn off").select_option("all")
    await form.get_by_label("Why").fill(f"{HOSTILE} {'x' * 300}")
    await form.get_by_role("button").click()
    await expect(page.get_by_role("button", name="Turn it off")).to_be_visible()
    await shoot_all(page, "switch-off")
    await page.goto(f"{base}/operations/switches?on=class:money_movement")
    await shoot_all(page, "switch-on")
    await page.goto(f"{base}/approvals/{approval.approval_id}")
    await shoot_all(page, "approval-switched-off")


async def off_already(office: Office, name: str, *, reason: str, tenant: str = TENANT, by: str = "otto") -> None:
    await office.ledger.system.execute(
        "INSERT INTO switches VALUES ($1, $2, now() - interval '25 minutes', $3, $4, 'pause')", tenant, name, by, reason
    )


async def a_busy_day(office: Office) -> None:
    """Refunds in many hours of the last day, limits that are nearly used up, a credential, and a denial."""
    execute = office.ledger.system.execute
    for hours, done, lost, denied in ((1, 3, 1, 0), (2, 5, 0, 1), (5, 2, 0, 0), (11, 1, 1, 1), (20, 1, 0, 0)):
        for number in range(done + lost + denied):
            approval = await office.park(expires_in=timedelta(days=2))
            if number >= done + lost:
                await office.decide(approval, "deny", reason="Not due.")
            else:
                await lose_answer(office.ledger, approval.request_id)
                if number < done:
                    await confirm(office.ledger, approval.request_id)
            await execute(
                "UPDATE calls SET created_at = created_at - make_interval(hours => $2) WHERE request_id = $1",
                approval.request_id,
                hours,
            )
    await execute(
        "INSERT INTO uses SELECT 'use' || n, $1, 'issue_refund', 'tool', 1, now(), now(), 'spent'"
        " FROM generate_series(1, 86) n",
        TENANT,
    )
    await execute("INSERT INTO uses VALUES ('all', $1, '*', 'tenant', 5000000, now(), now(), 'spent')", TENANT)
    await office.ledger.vault.put("stripe", "sk_example", by="root")
    event = EgressDenied(system="payments", host="gateway." + "long-" * 30 + "example", because="address_not_allowed")
    await office.ledger.streams.append(TENANT, denials_of(TENANT), event)
