"""What of a read's result goes to the agent: no more than its manifest allows, and never silently less."""

import json
from collections.abc import Mapping

from pydantic import JsonValue

from schemas.tools import Manifest

COUNT, TRUNCATED = "count", "truncated"


class ResultTooLargeError(Exception):
    """It cannot be cut to what the manifest allows."""


def capped(result: Mapping[str, JsonValue], manifest: Manifest) -> dict[str, JsonValue]:
    """Pure. The result with lists of at most `result_max_items` entries, in at most `result_max_bytes` as compact JSON
    in UTF-8: the last entries of its largest list are left out until it fits, and `truncated` then says so.

    Raises ResultTooLargeError where nothing is left to leave out.
    """
    kept = dict(result)
    lists = {name: value[: manifest.result_max_items] for name, value in result.items() if isinstance(value, list)}
    kept.update(lists)
    while _size(kept) > manifest.result_max_bytes:
        largest = max(lists.values(), key=_size, default=None)
        if not largest:
            raise ResultTooLargeError
        largest.pop()
    if any(entries != result[name] for name, entries in lists.items()):
        if TRUNCATED not in kept:
            raise ResultTooLargeError
        kept[TRUNCATED] = True
    return kept


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace"))
