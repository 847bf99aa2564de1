"""From a provider's claims to whom it vouches for. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import JsonValue

from ledger.identities import Identity
from ledger.people import names_of

_USERNAME = re.compile(r"[a-z0-9][a-z0-9._@+-]{0,63}")
# An e-mail address has at most 320 characters.
_LONGEST_NAME = 320
_LONGEST_SHOWN = 100
_LATEST = 253_402_300_799  # the end of the year 9999


class EmailNotVerifiedError(Exception):
    """Accounts are called by e-mail address, and the provider does not say that this one is theirs."""

    because = "email_not_verified"


@dataclass(frozen=True, slots=True)
class ClaimRules:
    """Which claims are read, and what a group grants. `roles`: group -> roles; empty where roles are not the provider's
    to say."""

    username_claim: str
    groups_claim: str
    roles: Mapping[str, frozenset[str]]


def identity_of(issuer: str, claims: Mapping[str, JsonValue], rules: ClaimRules) -> Identity:
    """`claims` are those of a checked ID token, whose `sub` is text. Raises EmailNotVerifiedError.

    A name, however chosen, never finds an account; it only names a new one, and keeps its bearer from deciding what
    somebody of that name asked for. So an address that nobody verified counts as a name all the same.
    """
    subject = str(claims["sub"])
    username = _text(claims, rules.username_claim)
    if username is not None and rules.username_claim == "email" and claims.get("email_verified") is not True:
        raise EmailNotVerifiedError
    known_as = (_text(claims, name) for name in (rules.username_claim, "preferred_username", "email", "nickname"))
    lowered = (username or "").lower()
    return Identity(
        issuer=issuer,
        subject=subject,
        username=lowered if _USERNAME.fullmatch(lowered) else None,
        display_name=(_text(claims, "name") or username or subject)[:_LONGEST_SHOWN],
        names=names_of(subject, *known_as),
        roles=_roles(claims.get(rules.groups_claim), rules.roles) if rules.roles else None,
        seen_at=_time(claims.get("auth_time")),
    )


def _time(value: JsonValue) -> datetime | None:
    """Of seconds since the epoch; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _LATEST:
        return None
    return datetime.fromtimestamp(value, UTC)


def _text(claims: Mapping[str, JsonValue], name: str) -> str | None:
    value = claims.get(name)
    if not isinstance(value, str) or not value.isprintable() or len(value) > _LONGEST_NAME:
        return None
    return value.strip() or None


def _roles(groups: JsonValue, roles: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Of the groups exactly as they are named. Whatever else the claim may be grants nothing."""
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    return frozenset(role for each in listed if isinstance(each, str) for role in roles.get(each, ()))
