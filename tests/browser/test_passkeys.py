"""Passkeys in a real browser, with Chromium's own virtual authenticator: added, and approved with."""

from dataclasses import replace

from playwright.async_api import CDPSession, Page, expect

from tests.api.parked import PASSWORD, TENANT, Office
from tests.browser.conftest import PHONE, NewPage, in_browser, shoot
from tests.browser.test_pages import sign_in

pytestmark = in_browser

Served = tuple[Office, str]


def by_name(served: Served) -> tuple[Office, str]:
    """The same place by a name: at an address browsers have no passkeys."""
    office, base = served
    named = base.replace("127.0.0.1", "localhost")
    office.app.state.context = replace(office.app.state.context, public_url=named)
    return office, named


async def with_authenticator(page: Page) -> tuple[CDPSession, str]:
    """(session, id). https://chromedevtools.github.io/devtools-protocol/tot/WebAuthn/"""
    session = await page.context.new_cdp_session(page)
    await session.send("WebAuthn.enable")
    options = {
        "protocol": "ctap2",
        "transport": "internal",
        "hasResidentKey": True,
        "hasUserVerification": True,
        "isUserVerified": True,
        "automaticPresenceSimulation": True,
    }
    made = await session.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    return session, made["authenticatorId"]


async def add_passkey(page: Page, base: str) -> None:
    await page.goto(f"{base}/account")
    await page.get_by_label("What you call it").fill("laptop")
    await page.locator("#password").fill(PASSWORD)
    await page.get_by_role("button", name="Add a passkey").click()


async def test_a_passkey_is_added_and_approves(served: Served, new_page: NewPage) -> None:
    office, base = by_name(served)
    approval = await office.park(proof="passkey")
    page = await new_page(scripts=True)
    await with_authenticator(page)
    await sign_in(page, base, "/account")
    await shoot(page, "account")
    await add_passkey(page, base)
    await expect(page.get_by_text("not used yet")).to_be_visible()
    await shoot(page, "account-with-a-passkey")
    await page.goto(f"{base}/approvals/{approval.approval_id}")
    await shoot(page, "approval-passkey")
    await page.get_by_role("button", name="Approve with a passkey").click()
    await expect(page.get_by_text("whose passkey signed it")).to_be_visible()
    assert office.temporal.verdicts() == ["approve"]
    found = await office.ledger.of(TENANT).approvals.get(TENANT, approval.approval_id)
    assert found is not None
    proof = found.decisions[0].proof
    assert proof is not None
    assert proof.assertion is not None
    assert (proof.assertion.rp_id, proof.assertion.origin) == ("localhost", base)


async def test_a_user_whom_the_authenticator_does_not_verify_approves_nothing(
    served: Served, new_page: NewPage
) -> None:
    office, base = by_name(served)
    approval = await office.park(proof="passkey")
    page = await new_page(scripts=True, scheme="dark", viewport=PHONE)
    session, made = await with_authenticator(page)
    await sign_in(page, base)
    await add_passkey(page, base)
    await expect(page.get_by_text("not used yet")).to_be_visible()
    await session.send("WebAuthn.setUserVerified", {"authenticatorId": made, "isUserVerified": False})
    await page.goto(f"{base}/approvals/{approval.approval_id}")
    assert await shoot(page, "approval-passkey-phone-dark") == PHONE["width"]
    await page.get_by_role("button", name="Approve with a passkey").click()
    await expect(page.get_by_role("alert")).to_contain_text("The browser gave no passkey")
    assert await shoot(page, "passkey-refused-phone-dark") == PHONE["width"]
    assert office.temporal.verdicts() == []


async def test_without_javascript_the_page_says_so_and_the_password_remains(served: Served, page: Page) -> None:
    office, base = by_name(served)
    approval = await office.park(proof="reauthenticated")
    passkeys = office.ledger.of(TENANT).passkeys
    await passkeys.add(TENANT, "ana", credential_id=b"key", name="laptop", public_key=b"", sign_count=0)
    await sign_in(page, base, f"/approvals/{approval.approval_id}")
    await shoot(page, "approval-reauthenticated")
    await page.get_by_role("button", name="Approve with a passkey").click()
    await expect(page.get_by_text("A passkey needs JavaScript.")).to_be_visible()
    await page.get_by_role("link", name="Go back").click()
    await page.get_by_label("Your password").fill(PASSWORD)
    await page.get_by_role("button", name="Approve", exact=True).click()
    await expect(page.get_by_text("who entered their password again")).to_be_visible()
