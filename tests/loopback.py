"""Going out to servers on this machine, as the service does and as a test does it by itself."""

from collections.abc import Callable

import httpx

from gateways.egress import Denial, Egress


def egress(*base_urls: str, denied: Callable[[Denial], None] = lambda denial: None) -> Egress:
    """Lets exchanges with all systems out to these base URLs, which may be on this machine."""
    systems = ("payments", "orders", "helpdesk")
    return Egress(dict.fromkeys(systems, base_urls), private=systems, denied=denied)


def plain_client() -> httpx.AsyncClient:
    """For what a test itself has to do at a server: no guard, and nothing of the environment."""
    return httpx.AsyncClient(trust_env=False, verify=False)
