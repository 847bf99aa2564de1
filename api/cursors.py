"""Cursors of lists that are ordered by a time and an id."""

import base64
from datetime import UTC, datetime


class BadCursor(Exception):
    """What was given is not a cursor of ours."""


def encode(at: datetime, id_: str) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{id_}".encode()).decode().rstrip("=")


def decode(cursor: str | None) -> tuple[datetime, str] | None:
    """The place a cursor stands for; None without one. Raises BadCursor."""
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        at, _, id_ = text.partition("|")
        place = datetime.fromisoformat(at).astimezone(UTC), id_
    except (ValueError, OverflowError):
        raise BadCursor from None
    if not id_.isidentifier():
        raise BadCursor
    return place
