"""The two ways in which a person decides: the JSON API with a token, and the web form with a password."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any, Literal

import httpx

from runtime.demo.client import ApiProblem

Verdict = Literal["approve", "deny"]
_DEADLINE_SECONDS = 30


async def _send(http: httpx.AsyncClient, method: str, path: str, expected: int, **content: Any) -> httpx.Response:
    try:
        async with asyncio.timeout(_DEADLINE_SECONDS):
            response = await http.request(method, path, **content)
    except (httpx.HTTPError, TimeoutError) as error:
        raise ApiProblem(f"{path}: no answer ({type(error).__name__})") from None
    if response.status_code != expected:
        raise ApiProblem(f"{method} {path}: HTTP {response.status_code} instead of {expected}")
    return response


class ApprovalsApi:
    """What waits, and decisions about it, over JSON."""

    def __init__(self, http: httpx.AsyncClient, token: str) -> None:
        self._http = http
        self._headers = {"Authorization": f"Bearer {token}"}

    async def waiting(self) -> dict[str, dict[str, Any]]:
        """Everything that waits, by request id. Raises ApiProblem."""
        found: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        while True:
            params = {"limit": "500"} | ({} if cursor is None else {"cursor": cursor})
            page = (await _send(self._http, "GET", "/v1/approvals", 200, headers=self._headers, params=params)).json()
            found |= {each["request_id"]: each for each in page["approvals"]}
            cursor = page["next_cursor"]
            if cursor is None:
                return found

    async def decide(self, approval: dict[str, Any], verdict: Verdict, reason: str) -> None:
        """Decide what was shown. Raises ApiProblem when the decision is not taken."""
        body = {"decision": verdict, "action_digest": approval["action_digest"], "reason": reason}
        path = f"/v1/approvals/{approval['approval_id']}/decision"
        await _send(self._http, "POST", path, 200, headers=self._headers, json=body)


class WebForm:
    """A person at the web form, without JavaScript: only what the pages offer is sent back."""

    def __init__(self, http: httpx.AsyncClient) -> None:
        self._http = http

    @classmethod
    @asynccontextmanager
    async def signed_in(
        cls, api: str, username: str, password: str, *, transport: httpx.AsyncBaseTransport | None = None
    ) -> "AsyncGenerator[WebForm]":
        """A session of its own, signed out at the end. Raises ApiProblem when the sign-in is refused."""
        async with httpx.AsyncClient(
            base_url=api, trust_env=False, follow_redirects=False, timeout=_DEADLINE_SECONDS, transport=transport
        ) as http:
            page = await _send(http, "GET", "/signin", 200)
            form = _form(page, "/signin")
            await _send(http, "POST", "/signin", 303, data={**form.fields, "username": username, "password": password})
            yield cls(http)
            inbox = await _send(http, "GET", "/", 200)
            await _send(http, "POST", "/signout", 303, data=_form(inbox, "/signout").fields)

    async def decide(self, approval_id: str, verdict: Verdict, reason: str) -> None:
        """Open the approval's page and press its button. Raises ApiProblem when the decision is not taken."""
        page = await _send(self._http, "GET", f"/approvals/{approval_id}", 200)
        action = f"/approvals/{approval_id}/decision"
        form = _form(page, action, button=("decision", verdict))
        typed = {"reason": reason} if "reason" in form.fields else {}
        await _send(self._http, "POST", action, 303, data={**form.fields, **typed, "decision": verdict})


@dataclass(slots=True)
class _Form:
    action: str
    fields: dict[str, str] = field(default_factory=dict[str, str])
    buttons: set[tuple[str, str]] = field(default_factory=set[tuple[str, str]])


class _Forms(HTMLParser):
    """Collects the forms of a page: their fields as they would be sent, and their named buttons."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[_Form] = []
        self._open: _Form | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self._open = _Form(given.get("action", ""))
            self.forms.append(self._open)
        elif self._open is not None and "name" in given:
            if tag in ("input", "textarea"):
                self._open.fields[given["name"]] = given.get("value", "")
            elif tag == "button":
                self._open.buttons.add((given["name"], given.get("value", "")))

    def handle_endtag(self, tag: str) -> None:
        if tag == "form":
            self._open = None


def _form(page: httpx.Response, action: str, button: tuple[str, str] | None = None) -> _Form:
    """The form of a page that goes to `action` and has this button."""
    parser = _Forms()
    parser.feed(page.text)
    for form in parser.forms:
        if form.action == action and (button is None or button in form.buttons):
            return form
    raise ApiProblem(f"the page {page.url.path} offers no form to {action}")
