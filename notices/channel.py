"""What is told, and what it is told over."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from pydantic import JsonValue

from schemas.notices import NoticeProblem, Topic


@dataclass(frozen=True, slots=True)
class Message:
    """A notice in words, ready for any channel; of one line each, and of printable characters alone.

    `notice_id` is the same however often it is sent. `link` opens a page and does nothing else. `data` is for programs.
    """

    notice_id: str
    topic: Topic
    tenant: str
    at: datetime
    headline: str
    sentence: str
    facts: tuple[tuple[str, str], ...] = ()
    link: str | None = None
    data: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])


class NotDeliveredError(Exception):
    """It was not taken. `final`: nor will it be, however often it is sent."""

    def __init__(self, problem: NoticeProblem, *, final: bool = False, after_seconds: int | None = None) -> None:
        super().__init__(problem)
        self.problem: NoticeProblem = problem
        self.final = final
        self.after_seconds = after_seconds
        """When the other side asked to be tried again."""


class Channel(Protocol):
    """One way to reach people."""

    async def send(self, message: Message) -> None:
        """Send it once, within a total deadline. Raises NotDeliveredError; it may have arrived all the same."""
        ...


class Secrets(Protocol):
    """Where the credentials of channels come from."""

    async def secret(self, channel: str, tenant: str) -> str:
        """The credential of a channel, when it speaks for a tenant. Raises NotDeliveredError."""
        ...
