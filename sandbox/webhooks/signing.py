"""`Stripe-Signature` (https://docs.stripe.com/webhooks#verify-manually), and the ways to get it wrong. Pure."""

import hashlib
import hmac
from typing import Literal

Forgery = Literal["wrong_signature", "old_timestamp", "future_timestamp", "no_signature", "altered_body"]

_FIXED = {
    "Content-Type": "application/json; charset=utf-8",
    "User-Agent": "Stripe/1.0 (+https://stripe.com/docs/webhooks)",
    "Accept": "*/*; q=0.5, application/xml",
    "Cache-Control": "no-cache",
}
_HOUR = 3600


def signed(body: bytes, secret: str, at: int) -> dict[str, str]:
    """The headers of a delivery at the time `at`, in seconds. `secret` may be several, separated by commas, as while
    one replaces another: then there is a signature by each."""
    signatures = [f"v1={_sign(body, each.strip(), at)}" for each in secret.split(",")]
    # Stripe adds a v0 that proves nothing to the events of test mode, so that nobody accepts what is not v1.
    return {**_FIXED, "Stripe-Signature": ",".join([f"t={at}", *signatures, f"v0={_sign(body, 'v0', at)}"])}


def forged(body: bytes, secret: str, at: int, how: Forgery) -> tuple[dict[str, str], bytes]:
    """Headers and body of a delivery that must not be believed."""
    match how:
        case "wrong_signature":
            return signed(body, "whsec_of_somebody_else", at), body
        case "old_timestamp":
            return signed(body, secret, at - _HOUR), body
        case "future_timestamp":
            return signed(body, secret, at + _HOUR), body
        case "no_signature":
            return _FIXED, body
        case "altered_body":
            return signed(body, secret, at), body.replace(b'"livemode":false', b'"livemode":true')


def _sign(body: bytes, secret: str, at: int) -> str:
    return hmac.new(secret.encode(), b"%d.%b" % (at, body), hashlib.sha256).hexdigest()
