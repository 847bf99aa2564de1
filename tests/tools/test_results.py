"""What of a read's result goes to the agent is capped, and what is left out is said."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.catalog import BUILT_IN
from tools.manifest import load_manifest
from tools.results import ResultTooLargeError, capped

MANIFEST = load_manifest(BUILT_IN / "lookup_orders" / "manifest.yaml")


def manifest(items: int = 20, size: int = 4096) -> Any:
    return MANIFEST.model_copy(update={"result_max_items": items, "result_max_bytes": size})


def test_what_fits_is_left_as_it_is() -> None:
    result: Any = {"orders": [1, 2], "count": 2, "truncated": False, "more": {"list": [1] * 50}}
    assert capped(result, manifest()) == result


def test_the_last_entries_are_left_out_and_that_is_said() -> None:
    result: Any = {"orders": [*range(30)], "count": 30, "truncated": False}
    assert capped(result, manifest(items=5)) == {"orders": [*range(5)], "count": 30, "truncated": True}
    assert result["orders"] == [*range(30)]


@given(st.lists(st.text(max_size=80), max_size=30), st.lists(st.integers(0, 10**9), max_size=30))
def test_it_is_never_larger_than_the_manifest_says(texts: list[str], numbers: list[int]) -> None:
    result: Any = {"texts": texts, "numbers": numbers, "count": len(texts), "truncated": False}
    cut = capped(result, manifest(items=25, size=300))
    size = len(json.dumps(cut, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
    assert size <= 300
    kept: Any = (cut["texts"], cut["numbers"])
    assert kept == (texts[: len(kept[0])], numbers[: len(kept[1])])
    assert cut["truncated"] is (kept != (texts, numbers))


@pytest.mark.parametrize("result", [{"note": "x" * 400}, {"orders": ["x" * 400]}, {"list": [*range(30)]}])
def test_what_cannot_be_cut_or_cannot_say_so_is_not_answered(result: dict[str, Any]) -> None:
    with pytest.raises(ResultTooLargeError):
        capped(result, manifest(size=300))
