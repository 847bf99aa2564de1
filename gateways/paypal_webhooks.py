"""PayPal's webhooks, verified by the method that PayPal prefers: https://developer.paypal.com/api/rest/webhooks/rest/

Signed are `transmission id|transmission time|webhook id|CRC-32 of the body`, with RSA and SHA-256. The CRC alone would
let a forger who has one genuine webhook find another body for its signature; so nothing is believed of a notice but
that there is something to look at again.
"""

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from pydantic import Field, JsonValue

from gateways.border import B, Border, RemoteId, read
from gateways.paypal_certificates import Certificates
from gateways.paypal_wire import Link, above
from gateways.webhooks import NotGenuineError, Notice
from schemas import strict_json

# A delivery is tried "up to 25 times over 3 days", and it is not said that each time is a new transmission.
TOLERANCE = timedelta(days=3, hours=1)
AHEAD = timedelta(minutes=5)

_ALGORITHM = "SHA256withRSA"
_PLAIN = re.compile(r"[!-{}~]{1,100}")
_HEADERS = tuple(f"paypal-{name}" for name in ("transmission-id", "transmission-time", "transmission-sig", "cert-url"))


class _Refund(Border):
    id: RemoteId
    custom_id: str | None = None
    links: list[Link] = Field(default_factory=list[Link])


class _Capture(Border):
    id: RemoteId


class _Transaction(Border):
    seller_transaction_id: RemoteId


class _Dispute(Border):
    disputed_transactions: list[_Transaction] = Field(min_length=1)


class _Event(Border):
    id: RemoteId
    event_type: str
    resource_type: str | None = None
    resource: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


class PayPalWebhooks:
    """A `WebhookReader` for the webhook that has this id at PayPal."""

    def __init__(self, certificates: Certificates, webhook_id: str) -> None:
        """Raises ValueError for an id that cannot be one."""
        if re.fullmatch(r"[0-9A-Za-z]{1,50}", webhook_id) is None:
            raise ValueError("a webhook id is letters and digits")
        self._certificates = certificates
        self._webhook_id = webhook_id

    async def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Notice | None:
        """Of a dispute the first transaction is named. `now` must have a time zone.

        Raises NotGenuineError, also for an event about a refund or payment that does not say which.
        """
        await self._verify(headers, body, now)
        try:
            content = strict_json.loads(body)
        except strict_json.UnreadableError:
            raise NotGenuineError("unreadable") from None
        event = read(_Event, content)
        return None if event is None else _notice(event)

    async def _verify(self, headers: Mapping[str, str], body: bytes, now: datetime) -> None:
        """What costs nothing is checked before a certificate is fetched."""
        given = {name: headers.get(name, "") for name in _HEADERS}
        if not all(given.values()):
            raise NotGenuineError("signature_missing")
        transmission_id, at, signature, url = given.values()
        if headers.get("paypal-auth-algo") != _ALGORITHM:
            raise NotGenuineError("signature_unreadable")
        _check_age(at, now)
        try:
            signed = base64.b64decode(signature, validate=True)
        except (binascii.Error, ValueError):
            raise NotGenuineError("signature_unreadable") from None
        if _PLAIN.fullmatch(transmission_id) is None:
            raise NotGenuineError("signature_unreadable")
        key = await self._certificates.key(url, now)
        message = f"{transmission_id}|{at}|{self._webhook_id}|{zlib.crc32(body)}".encode()
        try:
            key.verify(signed, message, padding.PKCS1v15(), hashes.SHA256())
        except InvalidSignature:
            raise NotGenuineError("signature_wrong") from None


def _check_age(text: str, now: datetime) -> None:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NotGenuineError("signature_unreadable") from None
    if at.tzinfo is None:
        raise NotGenuineError("signature_unreadable")
    if now - at > TOLERANCE:
        raise NotGenuineError("signature_too_old")
    if at - now > AHEAD:
        raise NotGenuineError("signature_too_new")


def _notice(event: _Event) -> Notice | None:
    """Event names: https://developer.paypal.com/api/rest/webhooks/event-names/"""
    if event.event_type.startswith("CUSTOMER.DISPUTE."):
        dispute = _understood(_Dispute, event)
        return Notice(event_id=event.id, payment_id=dispute.disputed_transactions[0].seller_transaction_id)
    about_refund = event.event_type.startswith("PAYMENT.REFUND.")
    if not about_refund and event.event_type not in ("PAYMENT.CAPTURE.REFUNDED", "PAYMENT.CAPTURE.REVERSED"):
        return None
    if event.resource_type == "capture":
        return Notice(event_id=event.id, payment_id=_understood(_Capture, event).id)
    refund = _understood(_Refund, event)
    return Notice(event_id=event.id, operation_id=refund.custom_id, refund_id=refund.id, payment_id=above(refund.links))


def _understood(model: type[B], event: _Event) -> B:
    found = read(model, event.resource)
    if found is None:
        raise NotGenuineError("unreadable")
    return found
