"""The MCP servers that this service stands in front of, as a file says."""

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Self
from urllib.parse import urlsplit

import httpx
from pydantic import Field, StringConstraints, ValidationError, model_validator

from gateways.credentials import CredentialSource
from gateways.egress import Egress, base_url
from gateways.upstreams import Changed, Upstream
from runtime.systems import is_taken
from schemas import strict_yaml
from schemas.base import Model
from schemas.tools import System

_Variable = Annotated[str, StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]
_Word = Annotated[str, StringConstraints(min_length=1, max_length=4096, pattern=r"^[^\x00]+$")]


class UpstreamText(Model):
    """One server: `url` (streamable HTTP) or `command` (a program of this machine, over its standard input and output).

    Its credential is in the vault, under its name: it goes as bearer token, to a program as `credential_variable`; with
    `credential: false` it has none. `private`: its host may be on a private network, as one of this machine always may.
    """

    url: _Word | None = None
    command: Annotated[tuple[_Word, ...], Field(min_length=1)] | None = None
    folder: _Word | None = None
    """Where the program runs; where this process does, if nothing is said."""
    environment: dict[_Variable, _Word] = Field(default_factory=dict[str, str])
    """Beside PATH, HOME and the like, the only variables that the program gets. No secrets: this is a plain file."""
    credential_variable: _Variable | None = None
    credential: bool = True
    private: bool = False
    timeout_seconds: Annotated[int, Field(ge=1, le=50)] = 10
    """The most that one call takes, with all that it needs; a tool's manifest may say less."""

    @property
    def is_private(self) -> bool:
        return self.private or (self.url is not None and _is_loopback(urlsplit(self.url).hostname or ""))

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Self:
        if (self.url is None) == (self.command is None):
            raise ValueError("has either a url or a command")
        if self.url is not None:
            self._check_url(self.url)
        elif self.credential != (self.credential_variable is not None):
            raise ValueError("credential_variable: how the program gets its credential; without one, credential: false")
        return self

    def _check_url(self, url: str) -> None:
        if self.folder or self.environment or self.credential_variable:
            raise ValueError("folder, environment and credential_variable are of a command")
        base_url(url)
        parts = urlsplit(url)
        if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
            raise ValueError("url: is https, or on this machine")


class UpstreamsText(Model):
    """The whole file."""

    check_seconds: Annotated[int, Field(ge=1, le=3600)] = 60
    """How often it is looked whether the tools are still what was reviewed."""
    upstreams: dict[System, UpstreamText] = Field(default_factory=dict[str, UpstreamText])


def read_upstreams(path: Path) -> UpstreamsText:
    """What the file says. Raises ValueError: where, and what is wrong; never a value."""
    try:
        text = UpstreamsText.model_validate_json(strict_yaml.read(path).as_json)
    except strict_yaml.UnreadableError as problem:
        raise ValueError(f"{path}: {problem}") from None
    except ValidationError as problem:
        error = problem.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in error["loc"] if part != "[key]")
        raise ValueError(": ".join(filter(None, (str(path), where, strict_yaml.said(error))))) from None
    for name in text.upstreams:
        if is_taken(name):
            raise ValueError(f"{path}: the name {name} is taken")
    return text


def open_upstreams(
    texts: Mapping[str, UpstreamText],
    names: Iterable[str],
    client: httpx.AsyncClient,
    egress: Egress,
    credentials: CredentialSource,
    changed: Callable[[Changed], None],
) -> dict[str, Upstream]:
    """The upstreams of these names. Nothing is connected to before it is needed; each has to be closed."""
    wanted = {name: texts[name] for name in names}
    if not wanted:
        return {}
    # The SDK takes a second to load, which only those pay who have an upstream.
    from gateways.mcp.connection import HttpPlace, Place, ProgramPlace
    from gateways.mcp.upstream import McpUpstream

    def place(text: UpstreamText) -> Place:
        if text.url is not None:
            return HttpPlace(text.url, client, egress)
        folder = None if text.folder is None else Path(text.folder)
        return ProgramPlace(text.command or (), text.environment, text.credential_variable, folder)

    return {
        name: McpUpstream(
            name,
            place(text),
            credentials if text.credential else None,
            egress,
            deadline_seconds=text.timeout_seconds,
            changed=changed,
        )
        for name, text in wanted.items()
    }


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False
