"""MCP servers in front of which this service stands: what they advertise, and what one call of a tool came to.

Nothing here speaks the protocol; `gateways.mcp` does, and is loaded only where there is an upstream.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import rfc8785
from pydantic import JsonValue

from gateways.http import NotAnswered
from schemas.effects import Exchange

Change = Literal["changed", "gone"]

FRESH_SECONDS = 30.0
"""How old the list of tools may be that a read goes by. A write has it asked for again right before it is sent."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A tool as its server advertises it, in the server's words. None where it does not say."""

    name: str
    title: str | None
    description: str | None
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any] | None
    annotations: Mapping[str, Any]

    def as_json(self) -> dict[str, JsonValue]:
        """By the protocol's names, without what is not said."""
        said: dict[str, JsonValue] = {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": dict(self.input_schema),
            "outputSchema": None if self.output_schema is None else dict(self.output_schema),
            "annotations": dict(self.annotations) or None,
        }
        return {name: value for name, value in said.items() if value is not None}

    @property
    def pin(self) -> str | None:
        """Hex SHA-256 of its canonical JSON (RFC 8785): what a review of it is bound to. None where it has no such
        form, as with a number beyond 2^53; what cannot be pinned cannot be used."""
        try:
            return hashlib.sha256(rfc8785.dumps(self.as_json())).hexdigest()  # pyright: ignore[reportArgumentType]  # its JSON type is invariant
        except (rfc8785.CanonicalizationError, UnicodeEncodeError):
            return None


@dataclass(frozen=True, slots=True)
class Called:
    """An answer of a tool, in the server's words.

    `content` is its structured content, or else what its one text is as a JSON object; None where it is neither.
    `left_out` counts the parts of other types, which are not read. `rpc` is the code of a protocol error, which has no
    content.
    """

    content: JsonValue
    texts: tuple[str, ...]
    exchange: Exchange
    is_error: bool = False
    rpc: int | None = None
    left_out: Mapping[str, int] = field(default_factory=dict[str, int])


@dataclass(frozen=True, slots=True)
class Changed:
    """The tool is not what was reviewed, so it was not called."""

    upstream: str
    tool: str
    change: Change


class Upstream(Protocol):
    """One MCP server, with its credential and its limits. Never raises for what the network or the server did."""

    system: str

    async def definitions(self, at_most_old: float = 0) -> Mapping[str, Definition | None] | NotAnswered:
        """Everything that is advertised, by name; None for a name that is there more than once."""
        ...

    async def changes(
        self, pins: Mapping[str, str], at_most_old: float = FRESH_SECONDS
    ) -> Mapping[str, Change] | NotAnswered:
        """Those tools, of some by name with their pins, that are not what was reviewed, as they were advertised at most
        so many seconds ago."""
        ...

    async def call(
        self,
        tool: str,
        pin: str,
        arguments: Mapping[str, JsonValue],
        *,
        meta: Mapping[str, JsonValue] | None = None,
        writes: bool = False,
    ) -> Called | Changed | NotAnswered:
        """One call, sent at most once, and only while what is advertised is what was reviewed.

        A `NotAnswered` with `upstream_status` got an HTTP status in the place of an answer.
        """
        ...

    async def close(self) -> None:
        """End its connections."""
        ...
