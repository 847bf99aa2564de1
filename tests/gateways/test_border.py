"""Texts for remotes that take only so much."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wcwidth import iter_graphemes

from gateways.border import clipped

ACCENTED = "e\N{COMBINING ACUTE ACCENT}"
FAMILY = "\N{WOMAN}\N{ZERO WIDTH JOINER}\N{WOMAN}\N{ZERO WIDTH JOINER}\N{GIRL}"
FLAG = "\N{REGIONAL INDICATOR SYMBOL LETTER D}\N{REGIONAL INDICATOR SYMBOL LETTER E}"


@pytest.mark.parametrize(
    ("text", "limit", "left"),
    [
        ("", 5, ""),
        ("abc", 3, "abc"),
        ("abcd", 3, "abc"),
        ("\N{PACKAGE}", 1, ""),
        ("\N{PACKAGE}", 2, "\N{PACKAGE}"),
        ("a\N{PACKAGE}", 2, "a"),
        ("a" + ACCENTED, 2, "a"),
        ("a" + ACCENTED, 3, "a" + ACCENTED),
        ("a" + FAMILY, 8, "a"),
        (FAMILY + "a", 8, FAMILY),
        (FLAG * 2, 7, FLAG),
        ("a\r\nb", 2, "a"),
        ("\ud83da", 2, "?a"),
        ("a\udce9", 5, "a?"),
        ("e" + "\N{COMBINING ACUTE ACCENT}" * 600, 500, ""),
    ],
)
def test_a_text_is_cut_between_characters(text: str, limit: int, left: str) -> None:
    assert clipped(text, limit) == left


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=())), st.integers(0, 20))
def test_what_is_left_is_whole_fits_and_is_as_much_as_fits(text: str, limit: int) -> None:
    left = clipped(text, limit)
    sendable = text.encode("utf-8", "replace").decode("utf-8")
    assert len(left.encode("utf-16-le")) <= 2 * limit
    assert sendable.startswith(left)
    characters = list(iter_graphemes(sendable))
    assert left in {"".join(characters[:count]) for count in range(len(characters) + 1)}
    rest = sendable[len(left) :]
    if rest:
        following = next(iter_graphemes(rest))
        assert len((left + following).encode("utf-16-le")) > 2 * limit
        assert limit == 0 or not left or unicodedata.combining(rest[0]) == 0
