"""A person signs in with a real OpenID provider in a real browser, without JavaScript, decides, and signs out."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest_asyncio
from playwright.async_api import Page, expect
from pydantic import SecretStr

from ledger.streams import Streams
from runtime.openid import openid_provider
from runtime.settings import Settings
from tests.api.parked import TENANT, Office
from tests.api.peers.oidc_peer import CLIENT, PUBLIC_CLIENT, SECRET, start_oidc_provider
from tests.browser.conftest import PHONE, NewPage, in_browser, shoot

pytestmark = in_browser

ANA: dict[str, Any] = {
    "sub": "4f1d20aa9c01",
    "name": "Ana Example",
    "preferred_username": "ana.example",
    "email": "ana@example.com",
    "email_verified": True,
    "groups": ["refund-approvers"],
}


@dataclass(frozen=True)
class Company:
    """The service, and the provider that its people sign in with."""

    office: Office
    base: str
    issuer: str
    accounts: Path

    def people(self, **people: dict[str, Any]) -> None:
        self.accounts.write_text(json.dumps(people))

    async def use(self, stack: AsyncExitStack, **settings: Any) -> None:
        made = Settings.model_validate(
            {
                "database_url": SecretStr("postgresql://unused"),
                "tenant": TENANT,
                "public_url": self.base,
                "private_networks": "identity",
                "oidc_issuer": self.issuer,
                "oidc_client_id": CLIENT,
                "oidc_client_secret": SecretStr(SECRET),
                "oidc_scopes": "openid profile email groups",
                "oidc_roles": '{"refund-approvers": ["finance"]}',
                **settings,
            }
        )
        ledger, state = self.office.ledger, self.office.app.state
        streams = Streams(ledger.database.system, ledger.keys)
        provider = await stack.enter_async_context(openid_provider(made, streams))
        state.context = replace(state.context, oidc=provider)


@pytest_asyncio.fixture(loop_scope="module")
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


@pytest_asyncio.fixture(loop_scope="module")
async def company(served: tuple[Office, str], tmp_path: Path, stack: AsyncExitStack) -> AsyncIterator[Company]:
    office, base = served
    accounts = tmp_path / "accounts.json"
    with start_oidc_provider(tmp_path, accounts, base) as issuer:
        made = Company(office, base, issuer, accounts)
        made.people(ana=ANA)
        await made.use(stack)
        yield made


async def visit(page: Page, url: str) -> None:
    """Open a page of ours; nothing outside of this machine is asked for, as the provider's own forms would."""
    await page.route(re.compile(r"^https?://(?!127\.0\.0\.1[:/])"), lambda route: route.abort())
    await page.goto(url)


async def sign_in(page: Page, login: str = "ana") -> None:
    """From our sign-in page through the provider's forms."""
    await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    await page.get_by_placeholder("Enter any login").fill(login)
    await page.get_by_placeholder("and password").fill("any")
    await page.get_by_role("button", name="Sign-in").click()
    await page.get_by_role("button", name="Continue").click()


async def test_sign_in_decide_and_sign_out_of_both(company: Company, page: Page) -> None:
    approval = await company.office.park()
    await visit(page, f"{company.base}/approvals/{approval.approval_id}")
    await expect(page.get_by_label("Password")).to_be_visible()
    await shoot(page, "signin-both-ways")
    await sign_in(page)
    # Straight to where the link in an e-mail led.
    await expect(page.get_by_role("heading", level=1)).to_have_text(approval.title)
    await expect(page.get_by_text("Ana Example")).to_be_visible()
    cookies = {each.get("name"): each for each in await page.context.cookies(company.base)}
    assert cookies["counterseal_session"].get("httpOnly") is True
    assert "counterseal_oidc" not in cookies
    await page.get_by_role("button", name="Approve").click()
    await expect(page.get_by_text("Approved by ana.example")).to_be_visible()
    await page.get_by_role("button", name="Sign out").click()
    await expect(page.get_by_role("status")).to_contain_text("Signed out here.")
    await shoot(page, "signed-out-here")
    await page.get_by_role("link", name="Sign out there too").click()
    await page.get_by_role("button", name="Yes, sign me out").click()
    # Back at our own page, and the provider asks who it is again.
    await expect(page.get_by_label("Password")).to_be_visible()
    await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    await expect(page.get_by_placeholder("Enter any login")).to_be_visible()


async def test_a_public_client_on_a_phone(company: Company, new_page: NewPage, stack: AsyncExitStack) -> None:
    await company.use(stack, oidc_client_id=PUBLIC_CLIENT, oidc_client_secret=None)
    page = await new_page(viewport=PHONE)
    await visit(page, company.base)
    assert await shoot(page, "signin-both-ways-phone") == PHONE["width"]
    await sign_in(page)
    await expect(page.get_by_role("heading", name="Waiting for a decision")).to_be_visible()


async def test_somebody_without_a_group_is_told_what_to_do(company: Company, page: Page) -> None:
    company.people(eve={**ANA, "sub": "other", "preferred_username": "eve", "groups": ["everybody"]})
    await visit(page, company.base)
    await sign_in(page, "eve")
    await expect(page.get_by_role("alert")).to_contain_text("You have no role here. Ask whoever runs this service")
    await shoot(page, "no-role")


async def test_giving_up_at_the_provider_leads_back(company: Company, page: Page) -> None:
    await visit(page, company.base)
    await page.get_by_role("link", name="Sign in with 127.0.0.1").click()
    await page.get_by_role("link", name="Cancel").click()
    await expect(page.get_by_role("alert")).to_contain_text("The sign-in was cancelled or refused at the provider.")
