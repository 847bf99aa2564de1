"""Letters and digits that pass for others: a Cyrillic `а` in an English word, a mathematical or a full-width `A`. Pure.

What Unicode's confusables are about (https://www.unicode.org/reports/tr39/), kept to what a reader of Latin letters is
misled by. A text in another script that is no imitation is left as it is.
"""

import re
import unicodedata

# Scripts some of whose letters are drawn as Latin ones, as their characters' names begin.
_SCRIPTS = frozenset({"CYRILLIC", "GREEK", "COPTIC", "ARMENIAN", "CHEROKEE", "LISU", "DESERET"})
# Those letters, where a whole word could be made of them.
_DRAWN_AS_LATIN = frozenset("АВЕЅІЈКМНОРСТХҮԌԚԜӀаеѕіјорсухҽԁԛԝһӏбгпѡѵΑΒΕΖΗΙΚΜΝΟΡΤΥΧαγικνορστυωϲϳօսոհցզԼՕՍ")
# Latin letters that pass for the plain ones.
_LATIN = frozenset("ɑɡɩɪʟʀɴǀǃ\u1e9f")
_SMALL_CAPITAL = "LATIN LETTER SMALL CAPITAL"
# Ordinals as Spanish and Portuguese write them.
_ORDINALS = frozenset("ªº")
_WORD = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")


def lookalikes(text: str) -> frozenset[int]:
    """Where in the text they stand."""
    found: set[int] = set()
    foreign: list[tuple[int, str]] = []
    latin = other = 0
    for word in _WORD.finditer(text):
        scripts = [_script(each) for each in word[0]]
        found.update(word.start() + n for n, each in enumerate(word[0]) if _imitates(each))
        has_latin, has_other = "LATIN" in scripts, not _SCRIPTS.isdisjoint(scripts)
        latin += scripts.count("LATIN")
        other += sum(each in _SCRIPTS for each in scripts)
        if has_latin and has_other:
            found.update(word.start() + n for n, each in enumerate(scripts) if each in _SCRIPTS)
        elif has_other:
            foreign.append((word.start(), word[0]))
        plain_digits = any(each in "0123456789" for each in word[0])
        if has_latin or plain_digits:
            found.update(word.start() + n for n, each in enumerate(word[0]) if each.isdecimal() and not each.isascii())
    if latin > other:
        for start, word in foreign:
            if all(each in _DRAWN_AS_LATIN or not each.isalpha() for each in word):
                found.update(start + n for n, each in enumerate(word) if each in _DRAWN_AS_LATIN)
    return frozenset(found)


def _script(character: str) -> str:
    if character.isascii():
        return "LATIN" if character.isalpha() else ""
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def _imitates(character: str) -> bool:
    """Whether it is a plain letter or digit in disguise, whatever stands beside it."""
    if character.isascii() or character in _ORDINALS:
        return False
    if character in _LATIN or unicodedata.name(character, "").startswith(_SMALL_CAPITAL):
        return True
    plain = unicodedata.normalize("NFKC", character)
    category = unicodedata.category(character)
    return len(plain) == 1 and plain.isascii() and plain.isalnum() and (category[0] == "L" or category in ("Nd", "Nl"))
