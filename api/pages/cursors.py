"""Cursors of lists that are ordered by a time and an id."""

import base64
from datetime import UTC, datetime
from http import HTTPStatus

from api.pages.routing import PageError


def encode(at: datetime, id_: str) -> str:
    return base64.urlsafe_b64encode(f"{at.isoformat()}|{id_}".encode()).decode().rstrip("=")


def decode(cursor: str | None) -> tuple[datetime, str] | None:
    """The place a cursor stands for; None without one. Raises PageError for anything that is not a cursor."""
    if not cursor:
        return None
    try:
        text = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode("ascii")
        at, _, id_ = text.partition("|")
        place = datetime.fromisoformat(at).astimezone(UTC), id_
    except (ValueError, OverflowError):
        place = None
    if place is None or not place[1].isidentifier():
        raise PageError(HTTPStatus.BAD_REQUEST, "That page does not exist", "Start again from the first page.")
    return place
