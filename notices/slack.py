"""Incoming webhooks of Slack: https://docs.slack.dev/messaging/sending-messages-using-incoming-webhooks"""

import json

from pydantic import JsonValue

from notices.channel import Message, Secrets
from notices.file import SlackChannel
from notices.posting import Poster

NOTICE_HEADER = "Counterseal-Notice"
# https://docs.slack.dev/reference/block-kit/blocks/section-block
_MOST_FIELDS = 10


class Slack:
    """A `Channel`."""

    def __init__(self, name: str, _: SlackChannel, poster: Poster, secrets: Secrets) -> None:
        self._name = name
        self._poster = poster
        self._secrets = secrets

    async def send(self, message: Message) -> None:
        url = await self._secrets.secret(self._name, message.tenant)
        body = json.dumps(payload(message)).encode()
        await self._poster.post(self._name, url, body, {NOTICE_HEADER: message.notice_id})


def payload(message: Message) -> dict[str, JsonValue]:
    """`text` says it all, for notifications and for what takes no blocks."""
    facts = [f"{name}: {value}" for name, value in message.facts]
    link = [f"<{escaped(message.link)}|Open it> (opening decides nothing)"] if message.link else []
    text = "\n".join([*map(escaped, (message.headline, message.sentence, *facts)), *link])
    blocks: list[JsonValue] = [
        {"type": "header", "text": _plain(message.headline)},
        {"type": "section", "text": _plain(message.sentence)},
    ]
    if facts:
        blocks.append({"type": "section", "fields": [_plain(each) for each in facts[:_MOST_FIELDS]]})
    if link:
        blocks.append({"type": "section", "text": {"type": "mrkdwn", "text": link[0]}})
    blocks.append({"type": "context", "elements": [_plain(f"Counterseal, notice {message.notice_id}")]})
    return {"text": text, "blocks": blocks}


def escaped(text: str) -> str:
    """https://docs.slack.dev/messaging/formatting-message-text#escaping"""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _plain(text: str) -> dict[str, JsonValue]:
    return {"type": "plain_text", "text": escaped(text), "emoji": False}
