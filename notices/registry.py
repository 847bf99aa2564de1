"""The channels of a file, made: one line for each kind."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from zoneinfo import ZoneInfo

import httpx

from gateways.egress import Denial, Egress
from notices.channel import Channel, Secrets
from notices.file import AnyChannel, EmailChannel, NoticesFile, SlackChannel, WebhookChannel
from notices.mail import Mail
from notices.posting import Poster
from notices.slack import Slack
from notices.webhook import SignedWebhook


@dataclass(frozen=True, slots=True)
class Telling:
    """What notices are sent with: the channels by name, where people reach the pages, and the zone of times."""

    channels: Mapping[str, Channel]
    public_url: str
    zone: ZoneInfo


def open_channels(
    file: NoticesFile, client: httpx.AsyncClient, secrets: Secrets, denied: Callable[[Denial], None]
) -> dict[str, Channel]:
    """Every channel of the file, by its name. HTTP goes to the origins that the file names, and nowhere else.

    Raises ValueError for an origin that cannot be one.
    """
    origins = {name: (url,) for name, each in file.channels.items() if (url := _origin(each)) is not None}
    private = [name for name, each in file.channels.items() if each.private]
    poster = Poster(client, Egress(origins, private=private, denied=denied))
    return {name: _opened(name, each, poster, secrets) for name, each in file.channels.items()}


def _origin(channel: AnyChannel) -> str | None:
    match channel:
        case SlackChannel():
            return channel.origin
        case WebhookChannel():
            return channel.url
        case EmailChannel():
            return None


def _opened(name: str, channel: AnyChannel, poster: Poster, secrets: Secrets) -> Channel:
    match channel:
        case EmailChannel():
            return Mail(name, channel, secrets)
        case SlackChannel():
            return Slack(name, channel, poster, secrets)
        case WebhookChannel():
            return SignedWebhook(name, channel, poster, secrets)
