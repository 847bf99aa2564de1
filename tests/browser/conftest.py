"""A browser for the tests, and the application served to it on a loopback port."""

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, Protocol

import pytest
import pytest_asyncio
import uvicorn
from playwright.async_api import Browser, BrowserContext, Page, ViewportSize, async_playwright, expect

from tests.api.parked import Office, office

ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
)
SCREENSHOTS = Path(__file__).parents[2] / "artifacts" / "screenshots"
PHONE: ViewportSize = {"width": 390, "height": 844}
DESKTOP: ViewportSize = {"width": 1280, "height": 900}
LOOKS: tuple[tuple[str, ViewportSize, Literal["light", "dark"]], ...] = (
    ("phone-dark", PHONE, "dark"),
    ("desktop-light", DESKTOP, "light"),
)


def chromium() -> str:
    """The browser to use: what CHROMIUM says, or one of the system's, the quickest first."""
    named = os.environ.get("CHROMIUM", "")
    systems = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next((path for name in (named, *systems) if name and (path := shutil.which(name))), None)
    if found is None:
        pytest.fail("no Chromium was found: install one, or name it in CHROMIUM")
    return found


# Awaited conditions, on machines that may be busy.
expect.set_options(timeout=30_000)

# One browser for all tests of a file: they and it share the file's event loop.
in_browser = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        try:
            yield browser
        finally:
            await browser.close()


class NewPage(Protocol):
    """Opens a page in a browser profile of its own, without JavaScript unless `scripts` says so."""

    async def __call__(
        self, *, viewport: ViewportSize = ..., scheme: Literal["light", "dark"] = ..., scripts: bool = ...
    ) -> Page: ...


@pytest_asyncio.fixture(loop_scope="module")
async def new_page(browser: Browser) -> AsyncIterator[NewPage]:
    contexts: list[BrowserContext] = []

    async def open_page(
        *, viewport: ViewportSize = DESKTOP, scheme: Literal["light", "dark"] = "light", scripts: bool = False
    ) -> Page:
        context = await browser.new_context(viewport=viewport, color_scheme=scheme, java_script_enabled=scripts)
        contexts.append(context)
        context.set_default_timeout(20_000)
        return await context.new_page()

    yield open_page
    for context in contexts:
        await context.close()


@pytest_asyncio.fixture(loop_scope="module")
async def page(new_page: NewPage) -> Page:
    """A desktop page without JavaScript: the form must not need it."""
    return await new_page()


@pytest_asyncio.fixture(loop_scope="module")
async def served(database: str) -> AsyncIterator[tuple[Office, str]]:
    """The application on a loopback port: (office, base URL)."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        base = f"http://127.0.0.1:{listener.getsockname()[1]}"
        async with office(database, public_url=base) as running:
            server = uvicorn.Server(uvicorn.Config(running.app, log_level="warning", lifespan="off"))
            task = asyncio.create_task(server.serve(sockets=[listener]))
            try:
                async with asyncio.timeout(10):
                    while not server.started:
                        await asyncio.sleep(0.01)
                yield running, base
            finally:
                server.should_exit = True
                with suppress(asyncio.CancelledError):
                    await task


async def shoot(page: Page, name: str) -> int:
    """A screenshot of the whole page, kept with the build's artifacts; its width in pixels."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    # A click waits until the next page begins, not until its style is there.
    await page.wait_for_load_state("load")
    png = await page.screenshot(path=SCREENSHOTS / f"{name}.png", full_page=True)
    # The width stands in the header: https://www.w3.org/TR/png-3/#11IHDR
    return int.from_bytes(png[16:20], "big")


async def shoot_all(page: Page, name: str) -> None:
    """Screenshots of the whole page in both looks: in none is it wider than the screen."""
    too_wide: dict[str, int] = {}
    for look, viewport, scheme in LOOKS:
        await page.set_viewport_size(viewport)
        await page.emulate_media(color_scheme=scheme)
        width = await shoot(page, f"{name}-{look}")
        if width != viewport["width"]:
            too_wide[look] = width
    assert not too_wide, f"{name}: {too_wide}"
