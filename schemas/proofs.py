"""What a person proves beside their session when they approve something, and when that is enough. Pure."""

from datetime import datetime, timedelta
from typing import Annotated, Literal

from pydantic import StringConstraints

from schemas.base import Model

Base64Url = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_-]{1,4096}$")]
"""Bytes in base64url without padding (RFC 4648, 5)."""

ProofLevel = Literal["reauthenticated", "passkey"]
"""What an approval may ask of whoever approves it, the stricter one last: that they just proved again who they are, by
a password, a sign-in at the provider or a passkey; or that their passkey signed this very decision."""

SIGN_IN_SECONDS = 300
"""How long a new sign-in at the OpenID provider proves anything."""

_STRICTNESS: dict[ProofLevel | None, int] = {None: 0, "reauthenticated": 1, "passkey": 2}


class Assertion(Model):
    """A passkey's signature over a decision, with all that it takes to verify it (https://www.w3.org/TR/webauthn-3/).

    The challenge that was signed is derived from the decision and `nonce` (`ledger.assertions.challenge_of`).
    """

    credential_id: Base64Url
    public_key: Base64Url
    """COSE_Key (RFC 9052)."""
    authenticator_data: Base64Url
    client_data_json: Base64Url
    signature: Base64Url
    nonce: Base64Url
    rp_id: str
    origin: str


class Proof(Model):
    """What a person proved. `at` is when: for a sign-in at the provider, when that saw them."""

    kind: Literal["password", "sign_in", "passkey"]
    at: datetime
    assertion: Assertion | None = None

    def satisfies(self, required: ProofLevel | None, decided_at: datetime) -> bool:
        """Whether it is what an approval asks for, of a decision made at that time; that an assertion holds is for
        `ledger.assertions` to say."""
        if required == "passkey" or self.kind == "passkey":
            return self.kind == "passkey" and self.assertion is not None
        return self.kind != "sign_in" or decided_at - self.at <= timedelta(seconds=SIGN_IN_SECONDS)


def strictest(*levels: ProofLevel | None) -> ProofLevel | None:
    """The one that asks for most; None asks for nothing."""
    return max(levels, key=lambda level: _STRICTNESS[level], default=None)


def is_stricter(level: ProofLevel | None, than: ProofLevel | None) -> bool:
    return _STRICTNESS[level] > _STRICTNESS[than]
