"""The words of an upstream, in one field of their own, with where and when they were read: to be read, not followed."""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import cast

from pydantic import JsonValue

from gateways.border import clipped
from gateways.upstreams import Called
from schemas.base import Model
from tools.declared.references import at
from tools.mcp.document import CONTENT, Texts
from tools.untrusted import UntrustedText

# Control characters, and what has no width, turns others around or is seen by machines alone.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\U000e0000-\U000e007f]"
)
_LONGEST_REF, _LONGEST_TITLE = 128, 200


class Words(Model):
    """Whatever they ask for was asked for by nobody who may. `source` is the upstream."""

    source: str
    retrieved_at: datetime
    texts: tuple[UntrustedText, ...]


class LeftOut(Model):
    """How many parts of an answer were not read, by type."""

    image: int | None = None
    audio: int | None = None
    resource: int | None = None
    resource_link: int | None = None


class UpstreamResult(Model):
    """What the result of an upstream's read may have beside its own fields. `cut`: texts were shortened or left out."""

    untrusted: Words | None = None
    cut: bool | None = None
    left_out: LeftOut | None = None


def words_of(answer: Called, wanted: Sequence[Texts], system: str, tool: str, most_bytes: int) -> dict[str, JsonValue]:
    """The fields of an `UpstreamResult`, with texts of at most so many bytes in all."""
    texts, cut, left = list[UntrustedText](), False, most_bytes
    for each in wanted:
        for ref, title, text in _found(answer, each, tool):
            # One character is at most 3 bytes as UTF-8 for each unit of UTF-16, and an escape of JSON as long as 6.
            whole = UntrustedText(ref=_plain(ref, _LONGEST_REF), title=_title(title), text=_UNSEEN.sub("", text))
            shown = whole.model_copy(update={"text": _fitting(whole.text, each.most_length, left - _size(whole, ""))})
            if shown.text or not whole.text:
                texts.append(shown)
                left -= _size(whole, shown.text)
            cut = cut or shown.text != whole.text
    found: dict[str, JsonValue] = {}
    if texts:
        words = Words(source=system, retrieved_at=datetime.now(UTC), texts=tuple(texts))
        found["untrusted"] = words.model_dump(mode="json", exclude_none=True)
    if cut:
        found["cut"] = True
    counted = {name: count for name, count in answer.left_out.items() if name in LeftOut.model_fields}
    if counted:
        found["left_out"] = cast(JsonValue, counted)
    return found


def _found(answer: Called, wanted: Texts, tool: str) -> Iterator[tuple[str, str | None, str]]:
    """(ref, title, text) of each text that is there."""
    if wanted.text == CONTENT and wanted.each is None:
        yield from ((tool, None, text) for text in answer.texts)
        return
    entries = [answer.content] if wanted.each is None else at(answer.content, wanted.each)
    for entry in cast("list[JsonValue]", entries) if isinstance(entries, list) else ():
        text = at(entry, wanted.text)
        ref = tool if wanted.ref is None else at(entry, wanted.ref)
        title = None if wanted.title is None else at(entry, wanted.title)
        if isinstance(text, str):
            known = str(ref) if isinstance(ref, str | int) else tool
            yield known, title if isinstance(title, str) else None, text


def _title(title: str | None) -> str | None:
    return None if title is None else _plain(title, _LONGEST_TITLE)


def _plain(text: str, limit: int) -> str:
    return clipped(_UNSEEN.sub("", text), limit)


def _fitting(text: str, limit: int, most_bytes: int) -> str:
    """The longest beginning within both bounds."""
    shown = clipped(text, limit)
    while shown and len(_as_json(shown)) > most_bytes:
        shown = clipped(shown, len(shown) // 2)
    return shown


def _size(text: UntrustedText, words: str) -> int:
    content = text.model_copy(update={"text": words}).model_dump(mode="json", exclude_none=True)
    return len(_as_json(content)) + 1


def _as_json(value: JsonValue) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
