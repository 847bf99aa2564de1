"""The HTTP client that exchanges go over."""

import logging
import ssl
from functools import cache
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any

import httpx

from gateways.connecting import PinnedTransport, Resolve, resolve

# Shorter than the idle timeout of common servers (uvicorn's is 5 s), so that a kept connection is rarely one that the
# server is just closing: a request lost that way has an unknown outcome.
_KEEPALIVE_SECONDS = 4.0


def new_client(resolve: Resolve = resolve) -> httpx.AsyncClient:
    """The client that all exchanges of a process share: HTTP/1.1 keep-alive, no retries, redirects, proxies or cookies.

    It connects only within `Egress.passage`; outside of one a request raises EgressDenied. It has no read timeouts,
    since those let a slow drip run for ever: `Remote` bounds the whole exchange.
    """
    for name in ("httpx", "httpcore"):
        # At INFO and DEBUG they write URLs with their queries, and headers.
        logging.getLogger(name).setLevel(logging.WARNING)
    no_cookies = CookieJar(policy=DefaultCookiePolicy(allowed_domains=[]))
    limits = httpx.Limits(max_connections=100, max_keepalive_connections=50, keepalive_expiry=_KEEPALIVE_SECONDS)
    return _Client(
        transport=PinnedTransport(_trusted_authorities(), limits, resolve),
        cookies=no_cookies,
        trust_env=False,
        follow_redirects=False,
        timeout=httpx.Timeout(None),
    )


class _Client(httpx.AsyncClient):
    """Hands a streamed request to the transport as it is. What httpx does in between is off here (authentication,
    redirects, cookies) or not asked (hooks), and yet would be gone through for every exchange."""

    async def send(self, request: httpx.Request, *, stream: bool = False, **options: Any) -> httpx.Response:
        if not stream or self.is_closed:
            return await super().send(request, stream=stream, **options)
        response = await self._transport.handle_async_request(request)
        response.request = request
        if response.has_redirect_location:
            # Never followed; a redirect to nonsense is no answer, though.
            try:
                self._build_redirect_request(request, response)
            except httpx.HTTPError:
                await response.aclose()
                raise
        return response


@cache
def _trusted_authorities() -> ssl.SSLContext:
    """Loading them takes a tenth of a second."""
    context = httpx.create_ssl_context(trust_env=False)
    # The standard library lets the environment have every connection's keys written to a file.
    context.keylog_filename = None  # pyright: ignore[reportAttributeAccessIssue]  # typeshed leaves out its default, None
    return context
