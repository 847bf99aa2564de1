"""Where the service may connect to: exactly the origins that its settings name, at addresses that these may have."""

from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import httpx

from gateways.addresses import is_plain_name, is_private, literal
from schemas.events import EgressReason

_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int]
"""Scheme, host, port."""


@dataclass(frozen=True, slots=True)
class Denial:
    """A connection that was refused: to which system it was meant, which host it would have reached, and why.

    `host` is at most 253 printable ASCII characters, without credentials, port, path or query.
    """

    system: str
    host: str
    because: EgressReason


class EgressDenied(Exception):
    """Raised before anything of the request is sent."""

    def __init__(self, denial: Denial) -> None:
        super().__init__(denial.because)
        self.denial = denial


@dataclass(frozen=True, slots=True)
class Passage:
    """What an exchange that was let out may connect to."""

    system: str
    host: str
    port: int
    private: bool
    """Whether the host may be on a private network."""

    def refused(self, because: EgressReason, host: str | None = None) -> EgressDenied:
        return EgressDenied(Denial(self.system, _shown(self.host if host is None else host), because))


_passage: ContextVar[Passage | None] = ContextVar("passage", default=None)
_declared: ContextVar[frozenset[str] | None] = ContextVar("declared", default=None)
_writes_to: ContextVar[str | None] = ContextVar("writes_to", default=None)


def origin(url: httpx.URL) -> Origin:
    """The origin (RFC 6454) of an absolute http or https URL, its host in ASCII. Raises ValueError for any other."""
    if url.scheme not in _PORTS or not url.host:
        raise ValueError("not an absolute http or https URL")
    return url.scheme, url.raw_host.decode("ascii"), url.port or _PORTS[url.scheme]


def base_url(text: str) -> httpx.URL:
    """A configured base URL, e.g. `https://api.example.com/prefix`. Raises ValueError without repeating the text."""
    try:
        url = httpx.URL(text)
        _, host, _ = origin(url)
    except (httpx.InvalidURL, ValueError):
        raise ValueError("a base URL must be an absolute http or https URL") from None
    if url.userinfo or url.query or url.fragment:
        raise ValueError("a base URL must have no credentials, query or fragment")
    # The text is looked at too: other scripts have letters and dots that look like these and would be converted.
    if not text.isascii() or not _is_plain(host):
        raise ValueError("a base URL must have a plain ASCII host name, or an IP address in its standard form")
    return url


@contextmanager
def declared(systems: Iterable[str], writes_to: str | None) -> Generator[None]:
    """While a tool runs: exchanges with systems that its manifest does not name are denied, in tasks it starts too, and
    so is anything that may change something at another one than `writes_to`."""
    token, writing = _declared.set(frozenset(systems)), _writes_to.set(writes_to)
    try:
        yield
    finally:
        _declared.reset(token)
        _writes_to.reset(writing)


def current() -> Passage | None:
    """The passage of the exchange that runs now; without one no connection is made."""
    return _passage.get()


def _nobody_is_told(denial: Denial) -> None:
    pass


class Egress:
    """An exact allow-list: the origins of each system. Nothing is matched by prefix, suffix or pattern."""

    def __init__(
        self,
        systems: Mapping[str, tuple[str, ...]],
        *,
        private: Iterable[str] = (),
        denied: Callable[[Denial], None] = _nobody_is_told,
    ) -> None:
        """`systems`: base URLs by system, e.g. `payments`. `private` names those that may be on a private network, and
        only then may have an IP address in a base URL. `denied` is told of every denial.

        Raises ValueError when a base URL is not usable as one.
        """
        allowed = frozenset(private)
        self._denied = denied
        self._passages: dict[tuple[str, Origin], Passage] = {}
        listed = [(system, origin(base_url(text))) for system, texts in systems.items() for text in texts]
        for system, (scheme, host, port) in listed:
            # Connections to one place are shared, so everyone who connects there has to be allowed it.
            sharing = {other for other, theirs in listed if theirs[1:] == (host, port)}
            passage = Passage(system, host, port, private=allowed >= sharing)
            address = literal(host)
            if address is not None and not (passage.private and is_private(address)):
                raise ValueError(f"{system}: a base URL must have a name, or an address on an allowed private network")
            self._passages[system, (scheme, host, port)] = passage

    def allows(self, system: str, url: httpx.URL) -> bool:
        """Whether the system has this origin; which address it is at shows only when it is connected to."""
        return self._passage_to(system, url) is not None

    @contextmanager
    def passage(self, system: str, request: httpx.Request, *, writes: bool | None = None) -> Generator[None]:
        """Let the request out to `system`: connections that it needs may be made in this context, and no other.
        `writes`: whether it may change something there; every method but GET is taken to, where nothing is said.

        Raises EgressDenied, which also comes from connecting; either way `denied` was told and nothing was sent.
        """
        try:
            writes = request.method != "GET" if writes is None else writes
            token = _passage.set(self._admit(system, request, writes=writes))
            try:
                yield
            finally:
                _passage.reset(token)
        except EgressDenied as refusal:
            self._denied(refusal.denial)
            raise

    def local(self, system: str, *, writes: bool) -> None:
        """The same for a system that is a program of this machine, to which no connection is made. Raises EgressDenied,
        of which `denied` was told."""
        if not _is_declared(system, writes=writes):
            denial = Denial(system, "", "system_not_declared")
            self._denied(denial)
            raise EgressDenied(denial)

    def _admit(self, system: str, request: httpx.Request, *, writes: bool) -> Passage:
        url = request.url
        meant = Passage(system, url.raw_host.decode("ascii"), 0, private=False)
        if not _is_declared(system, writes=writes):
            raise meant.refused("system_not_declared")
        if url.userinfo or request.headers.get_list("host") != [url.netloc.decode("ascii")]:
            raise meant.refused("url_not_plain")
        passage = self._passage_to(system, url)
        if passage is None:
            raise meant.refused("origin_not_listed" if _is_plain(meant.host) else "url_not_plain")
        return passage

    def _passage_to(self, system: str, url: httpx.URL) -> Passage | None:
        try:
            return self._passages.get((system, origin(url)))
        except ValueError:
            return None


def _is_declared(system: str, *, writes: bool) -> bool:
    """Whether the tool that runs, if one does, may do so."""
    systems = _declared.get()
    return systems is None or (system in systems and (not writes or system == _writes_to.get()))


def _is_plain(host: str) -> bool:
    return is_plain_name(host) or literal(host) is not None


def _shown(host: str) -> str:
    return "".join(character if "!" <= character <= "~" else "?" for character in host[:253])
