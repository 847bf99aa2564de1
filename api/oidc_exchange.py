"""Exchanges with the OpenID provider: one request each, bounded in time and size, let out by the egress guard."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import httpx
from pydantic import JsonValue

from gateways.egress import Denial, Egress, EgressDenied, origin
from gateways.http import MAX_BODY_BYTES
from schemas import strict_json

SYSTEM = "identity"
_HEADERS = {"Accept": "application/json", "Accept-Encoding": "identity", "User-Agent": "counterseal"}


class ProviderUnavailableError(Exception):
    """The provider cannot be asked, or does not answer as one. Carries one of our own words, never the provider's."""

    @property
    def problem(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with its JSON; None where the body is none."""

    status: int
    json: JsonValue


class Exchanges:
    """The way to one provider."""

    def __init__(
        self,
        client: httpx.AsyncClient,
        *,
        private: bool = False,
        deadline_seconds: float = 10.0,
        denied: Callable[[Denial], None] = lambda denial: None,
    ) -> None:
        """`client`: as `gateways.client.new_client` makes it. `private`: the provider may be on a private network or on
        this machine. `denied` is told of connections that were refused."""
        self._client = client
        self._private = (SYSTEM,) if private else ()
        self._deadline_seconds = deadline_seconds
        self._denied = denied

    async def get(self, url: str, *, bearer: str | None = None) -> Answer:
        """Raises ProviderUnavailableError."""
        return await self._send("GET", url, {"Authorization": f"Bearer {bearer}"} if bearer else {})

    async def post(self, url: str, form: Mapping[str, str], *, authorization: str | None = None) -> Answer:
        """Raises ProviderUnavailableError."""
        return await self._send("POST", url, {"Authorization": authorization} if authorization else {}, form)

    async def _send(
        self,
        method: Literal["GET", "POST"],
        url: str,
        headers: Mapping[str, str],
        form: Mapping[str, str] | None = None,
    ) -> Answer:
        # Nothing in an error's text goes on: it may hold the URL, a header, or a form with the code and the secret.
        try:
            timeout = httpx.Timeout(None, connect=self._deadline_seconds / 2)
            request = self._client.build_request(
                method, url, headers={**_HEADERS, **headers}, data=form, timeout=timeout
            )
            scheme, host, port = origin(request.url)
            egress = Egress(
                {SYSTEM: (f"{scheme}://{_bracketed(host)}:{port}",)}, private=self._private, denied=self._denied
            )
            with egress.passage(SYSTEM, request):
                async with asyncio.timeout(self._deadline_seconds):
                    return await self._receive(request)
        except EgressDenied:
            raise ProviderUnavailableError("egress_denied") from None
        except TimeoutError:
            raise ProviderUnavailableError("timeout") from None
        except httpx.HTTPError:
            raise ProviderUnavailableError("not_answered") from None
        except (ValueError, httpx.InvalidURL):
            raise ProviderUnavailableError("address_not_usable") from None

    async def _receive(self, request: httpx.Request) -> Answer:
        response = await self._client.send(request, stream=True)
        body = bytearray()
        try:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise ProviderUnavailableError("too_large")
        finally:
            await response.aclose()
        try:
            return Answer(response.status_code, strict_json.loads(bytes(body)))
        except strict_json.UnreadableError:
            return Answer(response.status_code, None)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
