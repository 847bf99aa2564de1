"""The search finds a secret in every form that it claims to know, and in nothing else."""

import base64
import html
import json
import secrets
from collections.abc import Callable
from urllib.parse import quote, urlencode

import pytest

from tests.canary.planted import CARD, PIECE, Planted, Search, Secret, token

PLANTED = Planted.new()
WRITTEN: dict[str, Callable[[bytes], bytes]] = {
    "as it is": lambda value: b"<" + value + b">",
    "in a URL": lambda value: urlencode({"q": value}).encode(),
    "in a path": lambda value: quote(value, safe="").lower().encode(),
    "in a page": lambda value: html.escape(value.decode("latin-1")).encode("latin-1"),
    "in hex": lambda value: b"\\x00" + value.hex().encode() + b"ff",
    "in upper hex": lambda value: value.hex().upper().encode(),
    "its beginning": lambda value: b"Bearer " + value[:PIECE] + "…".encode(),
    "its end": lambda value: b"ends in " + value[-PIECE:],
}


def found(content: bytes, name: str) -> bool:
    return name in {each.secret for each in Search(PLANTED.every()).of(content)}


@pytest.mark.parametrize("secret", PLANTED.every(), ids=lambda each: each.name)
@pytest.mark.parametrize("how", WRITTEN)
def test_every_form_is_found(secret: Secret, how: str) -> None:
    assert found(WRITTEN[how](secret.value[secret.piece_from :] if "its" in how else secret.value), secret.name)


@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
@pytest.mark.parametrize("before", range(6))
@pytest.mark.parametrize("after", range(3))
def test_base64_is_found_wherever_it_begins(encode: Callable[[bytes], bytes], before: int, after: int) -> None:
    for planted in PLANTED.every():
        content = encode(secrets.token_bytes(before) + planted.value + secrets.token_bytes(after))
        assert found(content, planted.name), planted.name


def test_what_is_common_to_all_tokens_is_no_secret() -> None:
    mine = token("cs_run_abcdefghijklmnopqrstuvwxyz")
    search = Search([mine])
    assert not search.of(b"cs_run_another")
    assert search.of(b"abcdefghijkl")
    assert search.of(b"cs_run_abcdefghijklm")


def test_what_may_be_there_is_passed_by_and_nothing_else() -> None:
    content = json.dumps([PLANTED.note, PLANTED.told]).encode()
    search = Search(PLANTED.every())
    everything = {each.secret for each in search.of(content)}
    assert everything == {each.name for each in PLANTED.every()}
    assert {each.secret for each in search.of(content, besides=frozenset({CARD}))} == everything - {CARD}


def test_nothing_is_found_in_noise() -> None:
    assert Search(PLANTED.every()).of(base64.b64encode(secrets.token_bytes(200_000))) == []
