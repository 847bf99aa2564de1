"""axe-core (https://github.com/dequelabs/axe-core) finds nothing wrong with any page, with scripts."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect

from activities.policies import checked_text, document_of, terms_of_change
from ledger.cards import FLOOD
from ledger.ledger import Ledger
from ledger.people import Grant
from policy.load import DEFAULT_POLICY
from schemas.diagnostics import Diagnostic, RawException, StepName
from schemas.ids import new_approval_id
from tests.api.parked import CATALOG, PASSWORD, TENANT, Office, ask_for_review, confirm, facts, lose_answer
from tests.browser.conftest import LOOKS, in_browser
from tests.browser.test_pages import HOSTILE, sign_in
from tests.browser.test_passkeys import add_passkey, by_name, with_authenticator
from tests.gateways.peers.programs import PEERS

pytestmark = in_browser

Served = tuple[Office, str]
# All that WCAG 2.2 asks for at levels A and AA, and what axe's authors hold to be good practice.
_RUN = "() => axe.run(document, {resultTypes: ['violations']})"


class Looker:
    """A browser page that axe looks at. The policy that keeps other scripts out is set aside for axe alone."""

    def __init__(self, page: Page, base: str, axe: str) -> None:
        self.page = page
        self.base = base
        self._axe = axe
        self.found: dict[str, list[str]] = {}

    async def at(self, name: str, path: str) -> None:
        answer = await self.page.goto(self.base + path)
        assert answer is not None
        assert answer.status == (404 if name == "problem" else 200), f"{name}: {answer.status}"
        await self.here(name)

    async def here(self, name: str) -> None:
        """Keep what axe finds on the page as it is, on a phone and on a desktop, light and dark."""
        await self.page.wait_for_load_state("load")
        # A page that looks again by itself leaves whoever is in it alone.
        await self.page.evaluate("document.querySelector('#main').focus()")
        await self.page.evaluate(self._axe)
        for look, viewport, scheme in LOOKS:
            await self.page.set_viewport_size(viewport)
            await self.page.emulate_media(color_scheme=scheme)
            result = await self.page.evaluate(_RUN)
            if result["violations"]:
                self.found[f"{name}, {look}"] = [_said(each) for each in result["violations"]]


def _said(violation: dict[str, Any]) -> str:
    where = "; ".join(f"{node['target']} {node['failureSummary']}" for node in violation["nodes"][:3])
    return f"{violation['impact']} {violation['id']}: {where}"


@pytest.fixture(scope="module")
def axe() -> str:
    source = PEERS / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        pytest.fail("axe-core is not installed: make peers")
    return source.read_text()


@pytest_asyncio.fixture(loop_scope="module")
async def looker(served: Served, browser: Browser, axe: str) -> AsyncIterator[Looker]:
    context = await browser.new_context(bypass_csp=True)
    context.set_default_timeout(20_000)
    yield Looker(await context.new_page(), served[1], axe)
    await context.close()


async def test_axe_finds_nothing_on_what_approvers_see(served: Served, looker: Looker) -> None:
    office, base = served
    page = looker.page
    await looker.at("sign-in", "/signin")
    await page.get_by_label("Username").fill("ana")
    await page.get_by_label("Password").fill("not this one")
    await page.get_by_role("button", name="Sign in").click()
    await looker.here("sign-in, refused")
    await sign_in(page, base)
    await looker.here("inbox, empty")
    paths = await _day_of_approvers(office)
    for name, path in paths.items():
        await looker.at(name, path)
    await page.get_by_label("Reason to deny").fill("   ")
    await page.get_by_role("button", name="Deny").click()
    await looker.here("approval, without a reason")
    await page.keyboard.press("Tab")
    await page.get_by_role("link", name="Ask for less instead").click()
    await looker.here("amendment")
    await page.get_by_label("Amount").fill("a lot")
    await page.get_by_label("Why").fill("Less.")
    await page.get_by_role("button", name="Ask for this instead").click()
    await looker.here("amendment, refused")
    await page.goto(f"{base}/?tool=cancel_order")
    for box in await page.get_by_role("checkbox", name="Review together").all():
        await box.check()
    await page.get_by_role("button", name="Review selected").click()
    await looker.here("batch")
    await page.get_by_role("button", name="Deny these 2").click()
    await looker.here("batch, without a reason")
    await page.get_by_role("button", name="Approve these 2").click()
    await looker.here("batch, done")
    await expect(page.get_by_role("button", name="Keys")).to_be_visible()
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    await looker.here("keys")
    assert looker.found == {}


async def test_axe_finds_nothing_on_the_pages_of_passkeys(served: Served, looker: Looker) -> None:
    office, base = by_name(served)
    page, looker.base = looker.page, base
    approval = await office.park(proof="passkey")
    session, authenticator = await with_authenticator(page)
    await sign_in(page, base)
    await looker.at("account", "/account")
    await add_passkey(page, base)
    await expect(page.get_by_text("not used yet")).to_be_visible()
    await looker.here("account, with a passkey")
    await session.send("WebAuthn.removeVirtualAuthenticator", {"authenticatorId": authenticator})
    await looker.at("approval, by passkey", f"/approvals/{approval.approval_id}")
    await page.get_by_role("button", name="Approve with a passkey").click()
    await expect(page.get_by_text("Your passkey signs")).to_be_visible()
    await looker.here("passkey")
    assert looker.found == {}


async def _day_of_approvers(office: Office) -> dict[str, str]:
    """Pages by name; an open approval is the last."""
    await office.ledger.principals.identities.grant(
        "ana", Grant(role="finance", tool="*", currency="USD", up_to=60_000)
    )
    for _ in range(FLOOD + 1):
        await office.park(agent_id="support-bot-7", amount=31_240, currency="USD")
    for number in range(2):
        await office.park(
            tool="cancel_order", title=f"Cancel order ord_{number}", expires_in=timedelta(hours=number + 2)
        )
    over = await office.park(amount=70_000, currency="USD", expires_in=timedelta(minutes=30))
    legal = await office.park(approvers="legal", expires_in=timedelta(hours=1))
    late = await office.park(expires_in=timedelta(seconds=-1))
    two = await office.park(people=2, amount=100, currency="USD")
    await office.decide(two, "approve", reason="It is damaged.")
    done, lost, denied, running = [await office.park(expires_in=timedelta(hours=1)) for _ in range(4)]
    for each in (done, lost, running):
        await office.decide(each, "approve")
    await office.decide(denied, "deny", reason=HOSTILE)
    await confirm(office.ledger, done.request_id)
    await lose_answer(office.ledger, lost.request_id)
    proven = await office.park(proof="reauthenticated", amount=100, currency="USD")
    shown = await office.park(
        amount=31_240,
        currency="USD",
        untrusted={"note": HOSTILE},
        facts={**facts(disputed=True), "customer": {"fraud_flag": True}},
    )
    gone = await office.park(customer_id="cus_gone")
    await office.decide(gone, "deny", reason="No.")
    await office.ledger.erasures.erase(TENANT, "cus_gone", by="olga", reason="asked for")
    at = {"over a limit": over, "of others": legal, "late": late, "for two": two, "done": done, "unknown": lost}
    at |= {"denied": denied, "running": running, "to prove": proven, "erased": gone, "open": shown}
    return {
        "inbox": "/",
        "inbox, narrowed": "/?mine=yes&at_least=100&currency=USD",
        "inbox, nothing fits": "/?agent=nobody&at_least=x&currency=USD",
        "inbox, found": "/?find=ord_8f2b91a04c7d",
        "inbox, not found": "/?find=ord_nothing",
        "history": "/history",
        "statistics": "/stats",
        "problem": f"/approvals/{new_approval_id()}",
        "call": f"/calls/{lost.request_id}",
        **{f"approval, {name}": f"/approvals/{each.approval_id}" for name, each in at.items()},
    }


async def test_axe_finds_nothing_on_what_operators_see(served: Served, looker: Looker) -> None:
    office, base = served
    page = looker.page
    approval, denied = await office.park(), await office.park()
    await office.decide(approval, "approve")
    await office.decide(denied, "deny", reason="No.")
    await lose_answer(office.ledger, approval.request_id)
    await ask_for_review(office.ledger, approval.request_id)
    for step in ("execute", "inspect"):
        await office.ledger.diagnostics.store(_account(approval.request_id, step), TENANT)
    await office.ledger.switches.turn_off(TENANT, "tool:cancel_order", by="otto", reason=HOSTILE)
    proposal = await _propose(office.ledger)
    await sign_in(page, base, username="olga")
    for name, path in {
        "operations": "/operations",
        "policies": "/policies",
        "proposed policy": f"/policies/{proposal}",
        "operations, of one status": "/operations?status=denied",
        "tools": "/tools",
        "switches": "/operations/switches?agent=support-bot-7",
        "switch on": "/operations/switches?on=tool:cancel_order",
        "review": f"/operations/review/{approval.request_id}",
        "diagnostics": f"/operations/diagnostics/{approval.request_id}",
    }.items():
        await looker.at(name, path)
    await page.goto(f"{base}/operations/review/{approval.request_id}")
    yes = page.locator("form", has=page.get_by_role("heading", name="It happened"))
    await yes.get_by_label("Its id at the other system").fill("re_found")
    await yes.get_by_label("How you know").fill("Seen in the gateway's dashboard, as succeeded.")
    await yes.get_by_role("button").click()
    await looker.here("review, to confirm")
    await page.goto(f"{base}/operations/switches")
    form = page.locator("form", has=page.get_by_label("What to turn off"))
    await form.get_by_label("What to turn off").select_option("all")
    await form.get_by_label("Why").fill("An exercise")
    await form.get_by_role("button").click()
    await looker.here("switch off")
    assert looker.found == {}


async def _propose(ledger: Ledger) -> str:
    """A change of the policy that waits for an operator to agree."""
    two = "approval_cents: 20000", "approval_cents: 30000"
    text = DEFAULT_POLICY.read_text().replace("deadline: 24h", "deadline: 24h\n  changes: { people: 2 }", 1)
    before, after = (checked_text(each, "policy.yaml", CATALOG) for each in (text, text.replace(*two)))
    await ledger.policies.publish(document_of(before), base=0, by=["otto"])
    await ledger.principals.add_user(TENANT, "otto", "Otto Example", PASSWORD, ["operator"])
    terms = await terms_of_change(ledger.policies, CATALOG)
    made = await ledger.policies.propose(document_of(after), terms, by="otto", reason=f"Too many wait. {HOSTILE}")
    return made.proposal_id


def _account(request_id: str, step: StepName) -> Diagnostic:
    failure = RawException(type="example.Timeout", text=HOSTILE, traceback=f"Traceback\n{HOSTILE}")
    now = datetime.now(UTC)
    return Diagnostic(
        request_id=request_id, step=step, began_at=now, elapsed_ms=3, tool="issue_refund", failure=failure
    )
