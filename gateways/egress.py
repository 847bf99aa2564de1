"""Where the service may connect to: exactly the origins that its settings name."""

from collections.abc import Iterable

import httpx

_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host, port."""


def origin(url: httpx.URL) -> Origin:
    """The origin (RFC 6454) of an absolute http or https URL. Raises ValueError for any other."""
    if url.scheme not in _PORTS or not url.host:
        raise ValueError("not an absolute http or https URL")
    return url.scheme, url.host, url.port or _PORTS[url.scheme]


def base_url(text: str) -> httpx.URL:
    """A configured base URL, e.g. `https://api.example.com/prefix`. Raises ValueError without repeating the text."""
    try:
        url = httpx.URL(text)
        origin(url)
    except (httpx.InvalidURL, ValueError):
        raise ValueError("a base URL must be an absolute http or https URL") from None
    if url.userinfo or url.query or url.fragment:
        raise ValueError("a base URL must have no credentials, query or fragment")
    return url


class Egress:
    """An exact allow-list of origins. Nothing is matched by prefix, suffix or pattern."""

    def __init__(self, base_urls: Iterable[str]) -> None:
        """Raises ValueError when one of `base_urls` is not usable as one."""
        self._allowed = frozenset(origin(base_url(each)) for each in base_urls)

    def allows(self, url: httpx.URL) -> bool:
        try:
            return origin(url) in self._allowed
        except ValueError:
            return False
