"""Exchanges with PayPal's REST API, each with an access token: https://developer.paypal.com/api/rest/authentication/

The client's id and secret are sent to the token endpoint alone, and the tokens everywhere else. Tokens live in memory
only.
"""

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field

from pydantic import JsonValue

from gateways import trail
from gateways.border import problem_of, read
from gateways.credentials import Acting, acting_now
from gateways.http import Answer, Answered, Method, NotAnswered, Remote
from gateways.paypal_wire import Token
from schemas.effects import Exchange

# A token is not used any more in its last minute: it could expire on the way.
MARGIN_SECONDS = 60

_BEARER = re.compile(r"[!-~]{1,4096}")


@dataclass(frozen=True, slots=True)
class _Held:
    """A token, and until when it is used on the clock that it was fetched by."""

    value: str = field(repr=False)
    until: float


@dataclass(frozen=True, slots=True)
class _Refused:
    """There is no token, by this answer of the token endpoint."""

    answer: Answer


class PayPalApi:
    """`remote` carries the client's id and secret (HTTP Basic) as its own credential; `clock` counts seconds."""

    def __init__(self, remote: Remote, clock: Callable[[], float] = time.monotonic) -> None:
        self.system = remote.system
        self._remote = remote
        self._clock = clock
        # By whom they were fetched for: a tenant's or a tool's own credential gives tokens of its own.
        self._held: dict[Acting | None, _Held] = {}
        self._fetching: dict[Acting | None, asyncio.Task[_Held | _Refused]] = {}

    async def get(
        self, template: str, *, path: Mapping[str, str] | None = None, query: Mapping[str, str] | None = None
    ) -> Answer:
        """A read. One that is refused with a token from before is asked again with a new one, once.

        Without a token the answer is a `NotAnswered` that sent nothing, with the token endpoint's problem.
        """
        before = self._held.get(acting_now())
        token = await self._token()
        if isinstance(token, _Refused):
            return _not_sent(self.system, "GET", template, token)
        answer = await self._send("GET", template, token, path=path, query=query)
        if not _unauthorized(answer) or token is not before:
            return answer
        self._forget(token)
        token = await self._token()
        if isinstance(token, _Refused):
            return _not_sent(self.system, "GET", template, token)
        return await self._send("GET", template, token, path=path, query=query)

    async def post(
        self, template: str, *, path: Mapping[str, str], json: Mapping[str, JsonValue], request_id: str
    ) -> Answer:
        """A write, sent at most once, with its `PayPal-Request-Id`; the whole representation is asked for.

        Without a token the answer is a `NotAnswered` that sent nothing, with the token endpoint's problem.
        """
        token = await self._token()
        if isinstance(token, _Refused):
            return _not_sent(self.system, "POST", template, token)
        headers = {"PayPal-Request-Id": request_id, "Prefer": "return=representation"}
        answer = await self._send("POST", template, token, path=path, json=json, headers=headers)
        if _unauthorized(answer):
            self._forget(token)
        return answer

    async def _send(
        self,
        method: Method,
        template: str,
        token: _Held,
        *,
        path: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        json: Mapping[str, JsonValue] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        authorized = {"Authorization": f"Bearer {token.value}", **(headers or {})}
        return await self._remote.exchange(method, template, path=path, query=query, json=json, headers=authorized)

    def _forget(self, token: _Held) -> None:
        if self._held.get(acting_now()) is token:
            del self._held[acting_now()]

    async def _token(self) -> _Held | _Refused:
        """Everyone who needs one meanwhile waits for the same fetch and gets its result."""
        whom = acting_now()
        held = self._held.get(whom)
        if held is not None and self._clock() < held.until:
            return held
        if whom not in self._fetching:
            self._fetching[whom] = asyncio.create_task(self._fetch())
            self._fetching[whom].add_done_callback(lambda _: self._fetching.pop(whom))
        # Whoever started it may be cancelled; the others still need it.
        return await asyncio.shield(self._fetching[whom])

    async def _fetch(self) -> _Held | _Refused:
        asked_at = self._clock()
        following = trail.current()
        # A token is no part of the action: what was sent for it says nothing about how far the action got.
        with nullcontext() if following is None else following.during("facts"):
            answer = await self._remote.exchange("POST", "/v1/oauth2/token", form={"grant_type": "client_credentials"})
        token = read(Token, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
        value = "" if token is None else token.access_token.get_secret_value()
        if token is None or _BEARER.fullmatch(value) is None:
            return _Refused(answer)
        held = _Held(value, asked_at + token.expires_in - MARGIN_SECONDS)
        self._held[acting_now()] = held
        return held


def _unauthorized(answer: Answer) -> bool:
    return isinstance(answer, Answered) and answer.status == 401


def _not_sent(system: str, method: Method, template: str, refused: _Refused) -> NotAnswered:
    token_exchange = refused.answer.exchange
    return NotAnswered(
        Exchange(
            system=system,
            method=method,
            path_template=template,
            reached="nothing_sent",
            upstream_status=token_exchange.upstream_status,
            elapsed_ms=token_exchange.elapsed_ms,
            problem=problem_of(refused.answer),
        )
    )
