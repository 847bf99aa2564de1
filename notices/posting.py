"""One HTTP POST to a channel, past the egress guard: bounded in time, and nothing of the answer but its status."""

import asyncio
import re
from collections.abc import Mapping

import httpx

from gateways.egress import Egress, EgressDenied
from notices.channel import NotDeliveredError

DEADLINE_SECONDS = 15.0
# Everything else from 300 on is a refusal that repeating does not change.
_LATER = frozenset({408, 425, 429, *range(500, 600)})
_RETRY_AFTER = re.compile(r"[0-9]{1,5}")


class Poster:
    """Posts for all channels of a process."""

    def __init__(
        self, client: httpx.AsyncClient, egress: Egress, *, deadline_seconds: float = DEADLINE_SECONDS
    ) -> None:
        """`client` is one of `gateways.client.new_client`; `egress` lists the origin of each channel by its name."""
        self._client = client
        self._egress = egress
        self._deadline_seconds = deadline_seconds

    async def post(self, channel: str, url: str, body: bytes, headers: Mapping[str, str]) -> None:
        """Send `body` (JSON) once. Raises NotDeliveredError."""
        fixed = {"Content-Type": "application/json", "Accept-Encoding": "identity", "User-Agent": "counterseal"}
        timeout = httpx.Timeout(None, connect=self._deadline_seconds / 2)
        try:
            request = self._client.build_request(
                "POST", url, content=body, headers=fixed | dict(headers), timeout=timeout
            )
        except (httpx.InvalidURL, ValueError):
            raise NotDeliveredError("misconfigured", final=True) from None
        try:
            with self._egress.passage(channel, request):
                async with asyncio.timeout(self._deadline_seconds):
                    response = await self._client.send(request, stream=True)
                    await response.aclose()
        except EgressDenied:
            raise NotDeliveredError("egress_denied", final=True) from None
        except TimeoutError:
            raise NotDeliveredError("timeout") from None
        except (httpx.ConnectError, httpx.ConnectTimeout):
            raise NotDeliveredError("connect_failed") from None
        except httpx.HTTPError:
            raise NotDeliveredError("no_answer") from None
        if response.status_code in _LATER:
            after = response.headers.get("retry-after", "")
            seconds = int(after) if _RETRY_AFTER.fullmatch(after) else None
            raise NotDeliveredError("try_later", after_seconds=seconds)
        if not response.is_success:
            raise NotDeliveredError("refused", final=True)
