"""Values as people read them: amounts, times, spans, and text that cannot hide anything. Pure."""

import re
import unicodedata
from datetime import UTC, datetime, timedelta

from babel.dates import format_datetime
from babel.numbers import format_currency
from markupsafe import Markup, escape

from api.pages.lookalikes import lookalikes
from schemas.money import Money, exponent

_LOCALE = "en_US"
# Drawn as nothing (or as a space that is none) although they are letters, marks or symbols.
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_MOST_MARKS = 2
_MINUTE = 60
_EMPTY_LINES = re.compile(r"((?:[ \t]*\n){4,})")
_PLAIN = re.compile(r"[\n\t -~]*")


def money(amount: int, currency: str) -> str:
    """Minor units as an amount with its ISO 4217 code: 31240, "USD" is `312.40 USD`."""
    places = exponent(currency)
    pattern = "#,##0" + ("." + "0" * places if places else "") + " ¤¤"
    value = Money(amount=abs(amount), currency=currency).decimal
    return format_currency(
        -value if amount < 0 else value, currency, format=pattern, currency_digits=False, locale=_LOCALE
    )


def absolute(at: datetime) -> str:
    """`29 Nov 2026, 21:48 UTC`."""
    return format_datetime(at.astimezone(UTC), "d MMM y, HH:mm 'UTC'", locale=_LOCALE)


def span(length: timedelta) -> str:
    """A length of time in its two largest units: `1 day 6 h`, `23 h 47 min`, `4 min`, `under 1 min`."""
    minutes = int(abs(length).total_seconds()) // 60
    days, hours = divmod(minutes // 60, 24)
    if days:
        return f"{days} {'day' if days == 1 else 'days'}" + (f" {hours} h" if hours else "")
    if hours:
        return f"{hours} h" + (f" {minutes % 60} min" if minutes % 60 else "")
    return f"{minutes} min" if minutes else "under 1 min"


def took(seconds: float) -> str:
    """How long something took, to the second below a minute: `8 s`, `4 min`, `1 h 12 min`."""
    return f"{int(seconds)} s" if abs(seconds) < _MINUTE else span(timedelta(seconds=seconds))


def time_tag(at: datetime, words: str | None = None) -> Markup:
    """A time for people and machines, with the exact time in UTC as its title; `words` (such as `5 min ago`) are shown
    instead. What shows the time itself is marked for `times.js`, which writes it in the reader's zone."""
    own = Markup("") if words else Markup(" data-absolute")
    return Markup('<time datetime="{}" title="{}"{}>{}</time>').format(
        at.astimezone(UTC).isoformat(timespec="seconds"), absolute(at), own, words or absolute(at)
    )


def visible(text: str, cap: int | None = None) -> Markup:
    """`text` escaped, with every character that is drawn as nothing or moves others shown as its code point.

    Direction controls, zero-width and control characters, odd spaces, tags, unassigned and private ones, a pile of
    combining marks, letters that pass for others, and empty lines that push the rest away. Cut after `cap` characters,
    saying how many there are.
    """
    kept = text[:cap]
    pieces = _EMPTY_LINES.split(kept)
    shown = _piece(pieces[0])
    for lines, piece in zip(pieces[1::2], pieces[2::2], strict=True):
        shown += Markup('<span class="hidden-character">‹{} line breaks›</span>\n').format(lines.count("\n"))
        shown += _piece(piece)
    left = len(text) - len(kept)
    if left:
        shown += Markup('<span class="cut">… {} more characters are not shown</span>').format(f"{left:,}")
    return shown


def disguises(text: str) -> bool:
    """Whether there is anything in the text that `visible` has to make visible."""
    return visible(text) != escape(text)


def _piece(text: str) -> Markup:
    # Nearly all texts hide nothing, and need no look at each character. What claims to be markup is text all the same.
    return escape(str(text)) if _PLAIN.fullmatch(text) else _looked_through(text)


def _looked_through(text: str) -> Markup:
    shown: list[Markup] = []
    marks, imitations = 0, lookalikes(text)
    for n, character in enumerate(text):
        marks = marks + 1 if unicodedata.combining(character) or unicodedata.category(character) == "Me" else 0
        marked = n in imitations or _hides(character) or marks > _MOST_MARKS
        shown.append(_marked(character) if marked else escape(character))
    return Markup("").join(shown)


def _hides(character: str) -> bool:
    category = unicodedata.category(character)
    if category == "Zs":
        return character != " "
    return (
        (category[0] == "C" and character not in "\n\t")
        or category in ("Zl", "Zp")
        or character in _BLANK
        or "\ufe00" <= character <= "\ufe0f"
        or "\U000e0100" <= character <= "\U000e01ef"
    )


def _marked(character: str) -> Markup:
    code = f"U+{ord(character):04X}"
    name = unicodedata.name(character, "CONTROL CHARACTER").lower()
    return Markup('<span class="hidden-character" title="{}">‹{}›</span>').format(name, code)


def words(name: str) -> str:
    """An identifier as words: `not_delivered` is `not delivered`."""
    return name.replace("_", " ")
