"""The parser of bodies, over anything: it refuses or it reads, and what it reads is what was meant."""

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from api.edge import MAX_DEPTH, parse_body
from api.problems import Refused
from schemas.codes import Code

LARGEST = 2**53 - 1
QUICK = settings(max_examples=120, deadline=None)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
SCALARS = st.none() | st.booleans() | st.integers(-LARGEST, LARGEST) | st.floats(allow_nan=False, allow_infinity=False)
VALUES: st.SearchStrategy[Any] = st.recursive(
    SCALARS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(TEXTS, VALUES, max_size=5)
# Bytes that are nearly JSON find more than bytes of any kind.
TOKENS = [*'{}[],:"\\ ', *"1-.e", "true", "null", "NaN", "Infinity", '"a"', "\\u0000", "\\ud800", "\ufeff"]


def read(body: bytes) -> Any:
    """What is read, or None when it is refused; the test fails when anything else happens."""
    try:
        return parse_body(body)
    except Refused as problem:
        refused = problem
    assert refused.reply.code is Code.INVALID_INPUT
    assert refused.status in (400, 422)
    return None


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max((depth(each) for each in inner), default=0)


@QUICK
@given(st.binary(max_size=300))
@example(b"[" * 60_000)
@example(b'{"a":' * 12_000)
@example(b"9" * 60_000)
@example(b"-" * 60_000)
@example(b'{"a":1e' + b"9" * 399 + b"}")
@example(b'"' + b"\\" * 60_000 + b'"')
@example(b'{"a":"\\ud83d\\u0000"}')
def test_any_bytes_are_read_or_refused(body: bytes) -> None:
    value = read(body)
    assert value is None or isinstance(value, dict)


@QUICK
@given(st.lists(st.sampled_from(TOKENS), max_size=40).map("".join))
def test_anything_like_json_is_read_as_json_or_refused(text: str) -> None:
    value = read(text.encode())
    assert value is None or value == json.loads(text)


@QUICK
@given(OBJECTS, st.booleans())
def test_what_was_written_is_what_is_read(content: dict[str, Any], ascii_only: bool) -> None:
    body = json.dumps(content, ensure_ascii=ascii_only).encode()
    read_back = read(body)
    assert read_back == content
    # `1`, `1.0` and `true` are equal in Python, and not the same JSON.
    assert json.dumps(read_back) == json.dumps(content)


@QUICK
@given(OBJECTS, st.sampled_from(["a", "amount_cents", "ключ", ""]), VALUES, VALUES)
def test_a_name_that_is_given_twice_is_never_chosen_between(
    around: dict[str, Any], name: str, first: Any, second: Any
) -> None:
    key = json.dumps(name)
    twice = f"{{{key}: {json.dumps(first)}, {key}: {json.dumps(second)}}}"
    assert read(twice.encode()) is None
    assert read(json.dumps({**around, "inner": "HERE"}).replace('"HERE"', twice).encode()) is None


@QUICK
@given(st.integers(1, 40), st.booleans())
def test_depth_is_bounded_exactly(levels: int, lists: bool) -> None:
    value: Any = 1
    for _ in range(levels - 1):
        value = [value] if lists else {"a": value}
    content = {"a": value}
    assert (read(json.dumps(content).encode()) is not None) == (depth(content) <= MAX_DEPTH)


@QUICK
@given(st.integers(-(10**30), 10**30))
@example(9_007_199_254_740_993)
@example(LARGEST)
@example(-LARGEST - 1)
def test_integers_that_others_would_round_are_refused(number: int) -> None:
    assert (read(b'{"a": %d}' % number) is not None) == (abs(number) <= LARGEST)
