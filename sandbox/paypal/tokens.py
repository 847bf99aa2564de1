"""OAuth 2.0 client credentials: https://developer.paypal.com/api/rest/authentication/"""

import base64
import binascii
import hmac
import secrets
from dataclasses import dataclass
from urllib.parse import parse_qs

from sandbox.paypal import shapes
from sandbox.state import State
from sandbox.stripe_shapes import Answer

SCOPE = "https://uri.paypal.com/services/payments/refund https://uri.paypal.com/services/disputes/read-seller"


@dataclass(frozen=True)
class Client:
    """The one client: its id, its secret and how long its tokens last."""

    client_id: str
    secret: str
    token_seconds: int = 32_400


def issue(state: State, client: Client, authorization: str, form: str) -> Answer:
    """The answer of `POST /v1/oauth2/token`. Call in a transaction."""
    if not _is_client(client, authorization):
        error = {"error": "invalid_client", "error_description": "Client Authentication failed"}
        return shapes.json_answer(error, 401)
    if parse_qs(form).get("grant_type") != ["client_credentials"]:
        error = {"error": "unsupported_grant_type", "error_description": "Grant Type is NULL"}
        return shapes.json_answer(error, 400)
    token = f"A21AA{secrets.token_urlsafe(48)}"
    until = state.now_us() + client.token_seconds * 1_000_000
    state.db.execute("INSERT INTO tokens VALUES (?, ?)", (token, until))
    granted = {
        "scope": SCOPE,
        "access_token": token,
        "token_type": "Bearer",
        "app_id": "APP-80W284485P519543T",
        "expires_in": client.token_seconds,
        "nonce": secrets.token_hex(8),
    }
    return shapes.json_answer(granted)


def is_good(state: State, authorization: str) -> bool:
    scheme, _, token = authorization.partition(" ")
    row = state.db.execute("SELECT until_us FROM tokens WHERE token = ?", (token,)).fetchone()
    return scheme.lower() == "bearer" and row is not None and state.now_us() < row["until_us"]


def revoke_all(state: State) -> None:
    state.db.execute("DELETE FROM tokens")


def _is_client(client: Client, authorization: str) -> bool:
    scheme, _, value = authorization.partition(" ")
    try:
        given = base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        return False
    return scheme.lower() == "basic" and hmac.compare_digest(given, f"{client.client_id}:{client.secret}".encode())
