"""The time that a report is about. Pure."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

_DAYS = 30
_DAY = timedelta(days=1)
_EARLIEST, _LATEST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
# How long one column of a chart may stand for, and how many columns it has at most.
_STEPS = tuple(timedelta(days=days) for days in (1, 7, 30, 90, 365, 3650))
_MOST_STEPS = 45


@dataclass(frozen=True, slots=True)
class Period:
    """From `since` on, until just before `until`."""

    since: datetime
    until: datetime

    @property
    def step(self) -> timedelta:
        """The part of it that one column of a chart stands for: a day, or more where that would be too many."""
        length = self.until - self.since
        return next(each for each in _STEPS if length <= each * _MOST_STEPS)


def period(since: str | None, until: str | None, now: datetime) -> Period:
    """The period that was asked for: each end a date (UTC; that whole day is in it) or a time with its zone (ISO 8601).

    Without an end it goes on until today's; without a beginning it is 30 days. Raises ValueError with a sentence.
    """
    end = _end(until) if until else _midnight(now.astimezone(UTC).date()) + _DAY
    begin = _begin(since) if since else end - timedelta(days=_DAYS)
    if begin >= end:
        raise ValueError("the period ends before it begins")
    return Period(begin, end)


def half_open(since: str | None, until: str | None, now: datetime, zone: tzinfo) -> Period:
    """From `since` on until just before `until`: each a date, whose midnight in `zone` is meant, or a time with its
    zone (ISO 8601). A day has 23 or 25 hours where the clocks change.

    Without an end it goes on until the end of today; without a beginning it is the 30 days before. Raises ValueError
    with a sentence.
    """
    end = _bound(until, zone) if until else _midnight(now.astimezone(zone).date() + _DAY, zone)
    begin = _bound(since, zone) if since else _midnight(end.astimezone(zone).date() - timedelta(days=_DAYS), zone)
    if begin >= end:
        raise ValueError("the period ends before it begins")
    return Period(begin, end)


def zone_named(name: str) -> ZoneInfo:
    """A time zone of the IANA database. Raises ValueError with a sentence."""
    try:
        return ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise ValueError("a time zone is named as IANA does: Europe/Berlin, America/New_York, UTC") from None


def _bound(text: str, zone: tzinfo) -> datetime:
    return _midnight(_date(text), zone) if _DATE.fullmatch(text) else _instant(text)


def _begin(text: str) -> datetime:
    return _midnight(_date(text)) if _DATE.fullmatch(text) else _instant(text)


def _end(text: str) -> datetime:
    return _midnight(_date(text)) + _DAY if _DATE.fullmatch(text) else _instant(text)


def _date(text: str) -> date:
    return _instant(f"{text}T00:00:00+00:00").date()


def _instant(text: str) -> datetime:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        at = None
    # Compared only where there is a zone: near the ends of the calendar a time cannot be moved to another.
    if at is None or at.tzinfo is None or not _EARLIEST <= at < _LATEST:
        raise ValueError("a time is a day like 2026-11-30, or 2026-11-30T14:00:00Z with its zone")
    return at.astimezone(UTC)


def _midnight(day: date, zone: tzinfo = UTC) -> datetime:
    """The first moment of a day, in UTC; also where the clocks go forward at midnight."""
    return datetime.combine(day, time(), zone).astimezone(UTC)
