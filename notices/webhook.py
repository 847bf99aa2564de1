"""Signed requests to a program: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md"""

import base64
import binascii
import json
from datetime import UTC, datetime

from pydantic import JsonValue
from standardwebhooks.webhooks import Webhook

from notices.channel import Message, NotDeliveredError, Secrets
from notices.file import WebhookChannel
from notices.posting import Poster


class SignedWebhook:
    """A `Channel`. `webhook-id` is the notice's id, the same at every attempt; `webhook-timestamp` is the attempt's."""

    def __init__(self, name: str, settings: WebhookChannel, poster: Poster, secrets: Secrets) -> None:
        self._name = name
        self._url = settings.url
        self._poster = poster
        self._secrets = secrets

    async def send(self, message: Message) -> None:
        secret = await self._secrets.secret(self._name, message.tenant)
        body = json.dumps(payload(message))
        now = datetime.now(UTC)
        signature = Webhook(_key(secret)).sign(message.notice_id, now, body)
        headers = {
            "webhook-id": message.notice_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": signature,
        }
        await self._poster.post(self._name, self._url, body.encode(), headers)


def _key(secret: str) -> bytes:
    """`whsec_` and 24 to 64 bytes in base64, as the specification has it."""
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not 24 <= len(key) <= 64:
        raise NotDeliveredError("misconfigured", final=True)
    return key


def payload(message: Message) -> dict[str, JsonValue]:
    """`type`, `timestamp` and `data`, as the specification recommends."""
    data = {name: value for name, value in message.data.items() if name != "type"}
    return {
        "type": message.data["type"],
        "timestamp": message.at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        "data": {"notice_id": message.notice_id, "headline": message.headline, "link": message.link, **data},
    }
