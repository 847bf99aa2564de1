"""What a person proves beside their session when they approve something, and when that is enough. Pure."""

from datetime import datetime, timedelta
from typing import Literal

from schemas.base import Model

ProofLevel = Literal["reauthenticated", "passkey"]
"""What an approval may ask of whoever approves it, the stricter one last: that they just proved again who they are, by
a password, a sign-in at the provider or a passkey; or that their passkey signed this very decision."""

SIGN_IN_SECONDS = 300
"""How long a new sign-in at the OpenID provider proves anything."""

_STRICTNESS: dict[ProofLevel | None, int] = {None: 0, "reauthenticated": 1, "passkey": 2}


class Proof(Model):
    """What a person proved. `at` is when: for a sign-in at the provider, when that saw them."""

    kind: Literal["password", "sign_in"]
    at: datetime

    def satisfies(self, required: ProofLevel | None, decided_at: datetime) -> bool:
        """Whether it is what an approval asks for, of a decision made at that time."""
        if required == "passkey":
            return False
        return self.kind != "sign_in" or decided_at - self.at <= timedelta(seconds=SIGN_IN_SECONDS)


def strictest(*levels: ProofLevel | None) -> ProofLevel | None:
    """The one that asks for most; None asks for nothing."""
    return max(levels, key=lambda level: _STRICTNESS[level], default=None)


def is_stricter(level: ProofLevel | None, than: ProofLevel | None) -> bool:
    return _STRICTNESS[level] > _STRICTNESS[than]
