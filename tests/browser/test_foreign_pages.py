"""What another page, open in the browser of somebody who is signed in, can do to an approval: nothing."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Request, expect

from schemas.decisions import Approval
from tests.api.parked import TENANT, Office
from tests.browser.conftest import NewPage, in_browser
from tests.browser.test_pages import sign_in

pytestmark = in_browser

Served = tuple[Office, str]
# Of the same host, so that the browser sends the session's cookie along (ports make no other site), and of another one.
SAME_SITE, OTHER_SITE = "127.0.0.1", "localhost"


@asynccontextmanager
async def evil(html: str, host: str) -> AsyncGenerator[str]:
    """URL of a page on a server of its own."""
    body = f"<!doctype html><title>evil</title>{html}".encode()

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        writer.write(head.encode() + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        yield f"http://{host}:{server.sockets[0].getsockname()[1]}/"


def framing(base: str, approval: Approval) -> str:
    url = f"{base}/approvals/{approval.approval_id}"
    return f"""<iframe src="{url}"></iframe><iframe sandbox="allow-scripts allow-forms" src="{url}"></iframe>
        <iframe sandbox="allow-scripts allow-forms allow-same-origin" src="{url}"></iframe>
        <object data="{url}"></object><embed src="{url}">"""


def posting(base: str, approval: Approval) -> str:
    """Forms of every encoding and requests of every kind that a page may send elsewhere without asking."""
    decision = {"decision": "approve", "action_digest": approval.action_digest}
    fields = "".join(f'<input name="{name}" value="{value}">' for name, value in decision.items())
    as_json = json.dumps(decision)[:-1].replace('"', "&quot;")
    page, api = (f"{base}{path}/approvals/{approval.approval_id}/decision" for path in ("", "/v1"))
    forms = "".join(
        f'<form method="post" action="{url}" enctype="{encoding}" target="sink{n}">{body}</form>'
        f'<iframe name="sink{n}"></iframe>'
        for n, (url, encoding, body) in enumerate(
            [
                (page, "application/x-www-form-urlencoded", fields),
                (page, "multipart/form-data", fields),
                (page, "text/plain", fields),
                (api, "text/plain", f'<input name="{as_json}, &quot;reason&quot;:&quot;" value="&quot;}}">'),
                (api, "application/x-www-form-urlencoded", fields),
            ]
        )
    )
    script = """
        document.querySelectorAll("form").forEach(form => form.submit());
        const form = () => new URLSearchParams(JSON.parse(BODY)), post = {method: "POST", credentials: "include"};
        const sent = TARGETS.flatMap(url => [
            fetch(url, {...post, mode: "no-cors", body: BODY}),
            fetch(url, {...post, mode: "no-cors", body: form()}),
            fetch(url, {...post, body: BODY, headers: {"Content-Type": "application/json"}}),
        ]);
        TARGETS.forEach(url => navigator.sendBeacon(url, form()));
        Promise.allSettled(sent).then(() => { document.title = "sent"; });
    """
    script = script.replace("TARGETS", json.dumps([page, api])).replace("BODY", json.dumps(json.dumps(decision)))
    return f"{forms}<script>{script}</script>"


async def undecided(office: Office, approval: Approval) -> bool:
    found = await office.ledger.approvals.get(TENANT, approval.approval_id)
    return found is not None and found.status == "open" and not found.decisions and not office.temporal.signals


@pytest.mark.parametrize("site", [SAME_SITE, OTHER_SITE])
async def test_another_page_decides_nothing(served: Served, new_page: NewPage, site: str) -> None:
    office, base = served
    approval = await office.park()
    page = await new_page(scripts=True)
    await sign_in(page, base)
    with_cookie: list[str] = []

    async def look(request: Request) -> None:
        if request.method == "POST" and "counterseal" in (await request.header_value("cookie") or ""):
            with_cookie.append(request.url)

    page.on("request", look)
    async with evil(posting(base, approval), site) as url:
        await page.goto(url)
        await expect(page).to_have_title("sent")
        await page.wait_for_load_state("networkidle")
    # The session's own cookie did not help it, where the browser sent it.
    assert bool(with_cookie) == (site == SAME_SITE)
    assert await undecided(office, approval)


@pytest.mark.parametrize("site", [SAME_SITE, OTHER_SITE])
async def test_no_page_shows_it_in_a_frame(served: Served, new_page: NewPage, site: str) -> None:
    office, base = served
    approval = await office.park()
    page = await new_page(scripts=True)
    await sign_in(page, base)

    async with evil(framing(base, approval), site) as url:
        await page.goto(url)
        await page.wait_for_load_state("networkidle")
    frames = [frame for frame in page.frames if frame is not page.main_frame]
    assert len(frames) >= 3
    for frame in frames:
        # What is blocked is an error page of the browser's own.
        assert approval.title not in await frame.content()
        assert await frame.locator("form").count() == 0
    assert await undecided(office, approval)
