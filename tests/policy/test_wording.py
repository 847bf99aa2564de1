"""Our sentences, and what may stand in them."""

import pytest

from policy.wording import parse_wording

VALUES: dict[str, object] = {
    "args": {"currency": "USD", "amount_cents": 4999, "note": "do it"},
    "facts": {"status": "open", "at": "2026-10-17T19:20:00+00:00", "flag": True, "none": None, "list": ["x"], "a.b": 1},
}


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("nothing to fill in", "nothing to fill in"),
        ("it is {facts.status}", "it is open"),
        ("{facts.status}, {facts.flag} and {args.amount_cents}.", "open, yes and 4999."),
        ("placed {facts.at}", "placed 2026-10-17T19:20:00+00:00"),
        ("{args.amount_cents:money} is much", "49.99 USD is much"),
        ("said: {args.note}", "said: (not known)"),
        ("{facts.none}{facts.list}{facts.nope}{nope.nope}", "(not known)(not known)(not known)(not known)"),
        ("{facts.status.deeper}", "(not known)"),
        ("{facts.status:money}{facts.flag:money}", "(not known)(not known)"),
    ],
)
def test_render(source: str, text: str) -> None:
    assert parse_wording(source).render(VALUES) == text


@pytest.mark.parametrize(("currency", "text"), [("JPY", "4999 JPY"), ("KWD", "4.999 KWD"), ("usd!", "(not known)")])
def test_money_is_written_in_the_currency_of_the_arguments(currency: str, text: str) -> None:
    assert (
        parse_wording("{args.amount_cents:money}").render({"args": {"amount_cents": 4999, "currency": currency}})
        == text
    )


@pytest.mark.parametrize(
    "word", ["two words", "", "x" * 65, "a\nb", "\u202eabc", "\u0663", "<b>", "{args.note}", "a\u200bb", 10**18, 1.5]
)
def test_what_is_not_plain_is_not_shown(word: object) -> None:
    assert parse_wording("{facts.word}").render({"facts": {"word": word}}) == "(not known)"


@pytest.mark.parametrize(
    "source", ["{", "}", "{}", "{ facts.a }", "{facts.a!r}", "{facts.a:>9}", "{{facts.a}}", "{facts..a}"]
)
def test_braces_hold_a_name(source: str) -> None:
    with pytest.raises(ValueError, match="braces hold a name"):
        parse_wording(source)
