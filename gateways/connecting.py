"""How connections are made: the name is resolved once, every address is checked, and that very address is connected to.

What a name resolves to later is of no use to anyone: TLS, its certificate and the Host header keep the name, and a kept
connection keeps its address.
"""

import asyncio
import select
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import cast

import httpcore
import httpx

from gateways.addresses import Address, is_private, is_public, literal
from gateways.egress import Denial, EgressDenied, Passage, current

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port -> the host's addresses, those to try first in front. Raises OSError."""


async def resolve(host: str, port: int) -> list[str]:
    """As the operating system resolves it, sorted by RFC 6724."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class PinnedBackend(httpcore.AsyncNetworkBackend):
    """Connects only for an exchange that `Egress` let out, and only to addresses that its system may have."""

    def __init__(self, resolve: Resolve) -> None:
        self._resolve = resolve
        # Its type is lost where httpcore tells whether anyio is there.
        self._network = cast(httpcore.AsyncNetworkBackend, httpcore.AnyIOBackend())

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's signature
        local_address: str | None = None,
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        """Raises EgressDenied, and httpcore's ConnectError and ConnectTimeout."""
        passage = _passage_to(host, port)
        clock = asyncio.get_running_loop().time
        ends = None if timeout is None else clock() + timeout
        addresses = await self._addresses(passage, timeout)
        for left in range(len(addresses), 0, -1):
            # Each gets its share of the time, so that one that never answers does not keep the others from being tried.
            share = None if ends is None else max(0.0, ends - clock()) / left
            address = str(addresses[-left])
            try:
                return PinnedStream(
                    await self._network.connect_tcp(address, port, share, local_address, socket_options)
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if left == 1:
                    raise
        raise httpcore.ConnectError("the name has no address")

    async def connect_unix_socket(
        self,
        path: str,
        timeout: float | None = None,  # noqa: ASYNC109  # httpcore's signature
        socket_options: Iterable[httpcore.SOCKET_OPTION] | None = None,
    ) -> httpcore.AsyncNetworkStream:
        raise EgressDenied(Denial("", "", "origin_not_listed"))

    async def sleep(self, seconds: float) -> None:
        await self._network.sleep(seconds)

    async def _addresses(self, passage: Passage, seconds: float | None) -> list[Address]:
        """All addresses of the host. One that it may not have denies it all: its name is in other hands."""
        address = literal(passage.host)
        found = [address] if address is not None else map(literal, await self._resolved(passage, seconds))
        addresses: list[Address] = []
        for each in found:
            if each is None or not (is_public(each) or (passage.private and is_private(each))):
                raise passage.refused("address_not_allowed")
            addresses.append(each)
        return addresses

    async def _resolved(self, passage: Passage, seconds: float | None) -> Sequence[str]:
        try:
            async with asyncio.timeout(seconds):
                return await self._resolve(passage.host, passage.port)
        except TimeoutError as error:
            raise httpcore.ConnectTimeout(error) from error
        except OSError as error:
            raise httpcore.ConnectError(error) from error


def _passage_to(host: str, port: int) -> Passage:
    passage = current()
    if passage is None:
        raise EgressDenied(Denial("", "", "origin_not_listed"))
    if (host, port) != (passage.host, passage.port):
        raise passage.refused("origin_not_listed", host)
    return passage


class PinnedStream(httpcore.AsyncNetworkStream):
    """A connection that has its socket at hand: around every exchange the pool asks each idle one whether its peer has
    closed it, and asking anyio's for the socket anew costs more than to ask the socket."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._socket: socket.socket = stream.get_extra_info("socket")

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109  # as above
        return await self._stream.read(max_bytes, timeout)

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109  # as above
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # as above
    ) -> httpcore.AsyncNetworkStream:
        return PinnedStream(await self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> object:
        return _is_readable(self._socket) if info == "is_readable" else self._stream.get_extra_info(info)


def _is_readable(connected: socket.socket) -> bool:
    """Whether something came, which on an idle connection is its end; that of one closed here is -1."""
    descriptor = connected.fileno()
    if descriptor < 0:
        return True
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


class PinnedTransport(httpx.AsyncHTTPTransport):
    """httpx's transport over a pool whose connections are made so: HTTP/1.1, no proxies, no retries."""

    def __init__(self, authorities: ssl.SSLContext, limits: httpx.Limits, resolve: Resolve) -> None:
        # The base class would make a pool of its own, and has no way to be given one. It uses no other attribute; if
        # that ever changes, nothing can be sent.
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=authorities,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            http1=True,
            http2=False,
            retries=0,
            network_backend=PinnedBackend(resolve),
        )
