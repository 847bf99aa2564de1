"""The file that says over which channels people are told, and what goes where. It holds no secret."""

from pathlib import Path
from typing import Annotated, Literal, Self
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints, ValidationError, model_validator
from pydantic_core import ErrorDetails

from gateways.addresses import is_plain_name, literal
from gateways.egress import base_url
from policy.document import Duration, Group
from schemas import strict_yaml
from schemas.base import Model
from schemas.notices import Topic
from schemas.tools import ToolName

_OF_APPROVERS: frozenset[Topic] = frozenset({"approval_requested", "approval_expiring", "approval_expired", "digest"})
_OF_TOOLS: frozenset[Topic] = frozenset(
    {"approval_requested", "approval_expiring", "approval_expired", "alert", "notice"}
)


CHANNEL = "channel:"
"""What the vault calls a channel: this and its name."""


class NoticesFileError(Exception):
    """The file cannot be used. `problems` has one line each: file, line, where, and what; never a value."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


def _is_zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError("must be the IANA name of a time zone, e.g. Europe/Berlin") from None
    return name


def _is_host(host: str) -> str:
    if not (is_plain_name(host) or literal(host) is not None):
        raise ValueError("must be a host name in lower case, or an IP address")
    return host


def _is_base_url(text: str) -> str:
    base_url(text)
    return text


ChannelName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9-]{1,62}$")]
Zone = Annotated[str, AfterValidator(_is_zone)]
Host = Annotated[str, AfterValidator(_is_host)]
Url = Annotated[str, AfterValidator(_is_base_url)]
Address = Annotated[
    str, StringConstraints(max_length=254, pattern=r"^[A-Za-z0-9._%+'=/-]+@[A-Za-z0-9-]+(\.[A-Za-z0-9-]+)*$")
]
SecretName = Annotated[str, StringConstraints(pattern=r"^(vault|env:[A-Z][A-Z0-9_]{0,63})$")]
"""`env:NAME` is an environment variable, `vault` the vault's credential `channel:` and the channel's name."""


class EmailChannel(Model):
    """Mail by SMTP, to one relay."""

    model_config = ConfigDict(validate_by_name=False, validate_by_alias=True)

    kind: Literal["email"]
    host: Host
    port: Annotated[int, Field(ge=1, le=65535)] = 587
    tls: Literal["starttls", "tls", "none"] = "starttls"
    authorities: str | None = None
    """A PEM file of the authorities that the relay's certificate chains to, in place of the usual ones."""
    username: Annotated[str, StringConstraints(min_length=1, max_length=255, pattern=r"^[!-~]+$")] | None = None
    password: SecretName | None = None
    sender: Address = Field(alias="from")
    to: Annotated[tuple[Address, ...], Field(min_length=1, max_length=50)]
    private: bool = False
    """Whether the relay may be on a private network or this machine."""

    @property
    def secret_name(self) -> str | None:
        return self.password

    @model_validator(mode="after")
    def _signs_in_over_tls(self) -> Self:
        if (self.username is None) != (self.password is None):
            raise ValueError("a username needs a password, and a password a username")
        if self.tls == "none" and (self.password is not None or not self.private):
            raise ValueError("tls: none is for a relay on a private network that asks for no password")
        return self


class SlackChannel(Model):
    """An incoming webhook of Slack, or of what takes the same."""

    kind: Literal["slack"]
    url: SecretName
    """The URL itself is the secret; it has to be of `origin`."""
    origin: Url = "https://hooks.slack.com"
    private: bool = False

    @property
    def secret_name(self) -> str:
        return self.url

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        _check_encrypted("origin", self.origin, private=self.private)
        return self


class WebhookChannel(Model):
    """A signed request to a program of yours: https://www.standardwebhooks.com"""

    kind: Literal["webhook"]
    url: Url
    secret: SecretName
    private: bool = False

    @property
    def secret_name(self) -> str:
        return self.secret

    @model_validator(mode="after")
    def _is_encrypted(self) -> Self:
        _check_encrypted("url", self.url, private=self.private)
        return self


def _check_encrypted(name: str, url: str, *, private: bool) -> None:
    if not private and not url.startswith("https://"):
        raise ValueError(f"{name} must begin with https://, unless the channel is private: true")


AnyChannel = Annotated[EmailChannel | SlackChannel | WebhookChannel, Field(discriminator="kind")]


class Route(Model):
    """What goes where. Each of `approvers`, `tenants` and `tools` that is given has to fit."""

    tell: Annotated[frozenset[Topic], Field(min_length=1)]
    over: Annotated[tuple[ChannelName, ...], Field(min_length=1)]
    approvers: frozenset[Group] | None = None
    tenants: frozenset[str] | None = None
    tools: frozenset[ToolName] | None = None

    @model_validator(mode="after")
    def _can_fit(self) -> Self:
        for name, given, having in (("approvers", self.approvers, _OF_APPROVERS), ("tools", self.tools, _OF_TOOLS)):
            if given is not None and (others := self.tell - having):
                raise ValueError(f"{name} can only be given for {', '.join(sorted(having))}; not {sorted(others)[0]}")
        return self


class Expiring(Model):
    """When it is told that a deadline is near: once so little of the time is left."""

    part: Annotated[int, Field(ge=2, le=100)] = 4
    """One of so many parts of the time that people have: 4 is a quarter."""
    at_most: Duration = 4 * 3600


class DigestTime(Model):
    """When the digest of a day is sent."""

    hour: Annotated[int, Field(ge=0, le=23)]
    zone: Zone = "UTC"


class NoticesFile(Model):
    """The whole file. `zone` is what times are told in."""

    zone: Zone = "UTC"
    expiring: Expiring = Expiring()
    digest: DigestTime | None = None
    channels: dict[ChannelName, AnyChannel]
    routes: tuple[Route, ...]

    @model_validator(mode="after")
    def _holds_together(self) -> Self:
        for number, route in enumerate(self.routes, 1):
            if missing := [each for each in route.over if each not in self.channels]:
                raise ValueError(f"route no. {number}: there is no channel {missing[0]}")
            if "digest" in route.tell and self.digest is None:
                raise ValueError(f"route no. {number}: digest needs a time, e.g. digest: {{ hour: 9 }}")
        return self


def load_notices(path: Path) -> NoticesFile:
    """Read the file. Raises NoticesFileError."""
    try:
        content = strict_yaml.read(path)
    except strict_yaml.UnreadableError as error:
        raise NoticesFileError([f"{path}: {error}"]) from None
    try:
        return NoticesFile.model_validate_json(content.as_json)
    except ValidationError as error:
        problems = [_problem(path, each, content.lines) for each in error.errors(include_input=False)]
        raise NoticesFileError(problems) from None


def _problem(path: Path, error: ErrorDetails, lines: dict[strict_yaml.Path, int]) -> str:
    """A validation error, on the line of what is wrong or of what lacks it."""
    known: strict_yaml.Path = ()
    for step in error["loc"]:
        # The kind of a channel is a step of pydantic's that the file does not have.
        if (*known, step) in lines:
            known = (*known, step)
    steps = [*known, error["loc"][-1]] if error["type"] == "missing" else [*known]
    where = " / ".join(f"no. {step + 1}" if isinstance(step, int) else step for step in steps)
    parts = (str(path), f"line {lines.get(known, 1)}", where, strict_yaml.said(error))
    return ": ".join(part for part in parts if part)
