"""Stripe's webhooks: https://docs.stripe.com/webhooks#verify-manually"""

import hashlib
import hmac
import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Literal

from pydantic import JsonValue, SecretStr

from gateways.border import Border, RemoteId, read
from gateways.stripe_wire import OPERATION
from gateways.webhooks import NotGenuineError, Notice
from schemas import strict_json

# "Our libraries have a default tolerance of 5 minutes between the timestamp and the current time."
TOLERANCE = timedelta(minutes=5)

_TIMESTAMP = re.compile(r"[0-9]{1,11}", re.ASCII)


class _Refund(Border):
    id: RemoteId
    object: Literal["refund"]
    charge: RemoteId | None = None
    payment_intent: RemoteId | None = None
    metadata: dict[str, str] | None = None
    status: str | None = None


class _Charge(Border):
    id: RemoteId
    object: Literal["charge"]
    payment_intent: RemoteId | None = None


class _Dispute(Border):
    object: Literal["dispute"]
    charge: RemoteId | None = None
    payment_intent: RemoteId | None = None


class _Data(Border):
    object: dict[str, JsonValue]


class _Event(Border):
    id: RemoteId
    object: Literal["event"]
    type: str
    data: _Data


# Events that name a refund or a payment, and what is in them: https://docs.stripe.com/api/events/types
OBJECTS: Mapping[str, type[_Refund | _Charge | _Dispute]] = {
    "refund.created": _Refund,
    "refund.updated": _Refund,
    "refund.failed": _Refund,
    "charge.refund.updated": _Refund,
    "charge.refunded": _Charge,
    "charge.dispute.created": _Dispute,
    "charge.dispute.updated": _Dispute,
    "charge.dispute.closed": _Dispute,
    "charge.dispute.funds_withdrawn": _Dispute,
    "charge.dispute.funds_reinstated": _Dispute,
}


class StripeWebhooks:
    """A `WebhookReader`. While a secret is rolled, Stripe signs with the old and the new one, and either is taken."""

    def __init__(self, secrets: tuple[SecretStr, ...]) -> None:
        """`secrets` are the endpoint's, e.g. `whsec_…`. Raises ValueError when there is none, or an empty one."""
        self._secrets = tuple(each.get_secret_value().encode() for each in secrets)
        if not all(self._secrets) or not self._secrets:
            raise ValueError("webhooks need a secret that is not empty")

    async def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Notice | None:
        """`payment_id` is the payment intent's where there is one, else the charge's.

        Raises NotGenuineError, also for an event about a refund or payment that does not say which.
        """
        self._verify(headers.get("stripe-signature"), body, now)
        try:
            content = strict_json.loads(body)
        except strict_json.UnreadableError:
            raise NotGenuineError("unreadable") from None
        event = read(_Event, content)
        if event is None or event.type not in OBJECTS:
            return None
        return _notice(event)

    def _verify(self, signature: str | None, body: bytes, now: datetime) -> None:
        if signature is None:
            raise NotGenuineError("signature_missing")
        timestamp, given = _parsed(signature)
        signed = timestamp.encode() + b"." + body
        expected = [hmac.new(secret, signed, hashlib.sha256).hexdigest().encode() for secret in self._secrets]
        # Every pair is compared, so that the time taken does not tell which one matched.
        matches = [hmac.compare_digest(each, theirs) for each in expected for theirs in given]
        if not any(matches):
            raise NotGenuineError("signature_wrong")
        # Signed too, so this is Stripe's own time; one from the future is as little to be trusted as an old one.
        if abs(now.timestamp() - int(timestamp)) > TOLERANCE.total_seconds():
            raise NotGenuineError("signature_too_old" if now.timestamp() > int(timestamp) else "signature_too_new")


def _parsed(signature: str) -> tuple[str, list[bytes]]:
    """The timestamp and the `v1` signatures of `t=…,v1=…,v1=…,v0=…`. Other schemes are ignored, as Stripe asks."""
    pairs = [pair.partition("=") for pair in signature.split(",")]
    timestamps = [value for name, _, value in pairs if name.strip() == "t"]
    given = [value.encode("utf-8", "replace") for name, _, value in pairs if name.strip() == "v1"]
    if len(timestamps) != 1 or _TIMESTAMP.fullmatch(timestamps[0]) is None or not given:
        raise NotGenuineError("signature_unreadable")
    return timestamps[0], given


def _notice(event: _Event) -> Notice:
    match read(OBJECTS[event.type], event.data.object):
        case _Refund() as refund:
            return Notice(
                event_id=event.id,
                operation_id=(refund.metadata or {}).get(OPERATION),
                refund_id=refund.id,
                payment_id=refund.payment_intent or refund.charge,
                status=refund.status,
            )
        case _Charge() as charge:
            return Notice(event_id=event.id, payment_id=charge.payment_intent or charge.id)
        case _Dispute(charge=charge, payment_intent=intent) if charge or intent:
            return Notice(event_id=event.id, payment_id=intent or charge)
        case _:
            raise NotGenuineError("unreadable")
