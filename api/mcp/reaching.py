"""By which names `/mcp` may be reached, and from which web pages: a page must not reach a service on this machine or in
its network through a name that was pointed there (DNS rebinding).

https://modelcontextprotocol.io/specification/2026-07-28/basic/transports/streamable-http#security-warning
"""

from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import urlsplit

from starlette.requests import Request

from api.context import Context
from api.mcp.origins import DEFAULT_PORTS, is_origin
from api.problems import refuse
from schemas.codes import Code


class Reach(NamedTuple):
    """Host and Origin headers that are answered. `local`: also all names of this machine, with any port."""

    hosts: frozenset[str]
    origins: frozenset[str]
    local: bool

    def has_host(self, host: str) -> bool:
        url = f"http://{host}"
        return host.lower() in self.hosts or (self.local and is_origin(url) and _is_of_this_machine(url))

    def has_origin(self, origin: str) -> bool:
        return origin in self.origins or (self.local and is_origin(origin) and _is_of_this_machine(origin))


@lru_cache(maxsize=8)
def reach(public_url: str, hosts: tuple[str, ...], origins: tuple[str, ...]) -> Reach:
    """What the public URL names, and what is added to it."""
    own = urlsplit(public_url)
    port = DEFAULT_PORTS.get(own.scheme)
    named = {own.netloc.lower()}
    if own.port is None:
        named.add(f"{own.netloc.lower()}:{port}")
    elif own.port == port:
        named.add(own.netloc.lower().removesuffix(f":{port}"))
    return Reach(
        frozenset({*named, *(host.lower() for host in hosts)}),
        frozenset({*(f"{own.scheme}://{host}" for host in named), *origins}),
        _is_of_this_machine(public_url),
    )


def check_reach(request: Request, services: Context) -> None:
    """Raises Refused (403) for a Host or Origin that is not allowed. Without an Origin it is no web page that asks."""
    allowed = reach(services.public_url, services.mcp_hosts, services.mcp_origins)
    hosts, origins = request.headers.getlist("host"), request.headers.getlist("origin")
    if len(hosts) != 1 or not allowed.has_host(hosts[0]) or not all(map(allowed.has_origin, origins)):
        raise refuse(Code.FORBIDDEN)


def _is_of_this_machine(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        return parts.username is None and (host == "localhost" or ip_address(host).is_loopback)
    except ValueError:
        return False
