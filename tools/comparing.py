"""Tools as they are registered against what a server advertises, field by field. Pure."""

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal, TypeGuard, cast

from pydantic import JsonValue

from tools.catalog import Catalog

Kind = Literal["internal", "extra", "repeated", "changed", "missing"]
Field = Literal["version", "description", "input_schema", "output_schema", "annotations"]

SHOWN_PLACES = 5
"""How many places of a field are told; the others are counted."""
_WORST_FIRST: tuple[Kind, ...] = ("internal", "extra", "repeated", "changed", "missing")
_BEFORE, _AFTER, _LONGEST_NAME, _LONGEST_PATH = 20, 60, 64, 160

# The keywords of JSON Schema 2020-12 whose values are no schemas, and those whose lists have no order.
_OF_SCHEMAS = frozenset(("properties", "patternProperties", "$defs", "definitions", "dependentSchemas"))
_OF_DATA = frozenset(("default", "const", "examples"))
_WITHOUT_ORDER = frozenset(("required", "enum", "type"))
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_$-]+")

_Position = Literal["schema", "schemas", "data", "set"]


@dataclass(frozen=True, slots=True)
class Advertised:
    """A tool as a server describes it, in the server's words. None where it does not say; a protocol that has no field
    for a version says none."""

    name: str
    description: str | None
    input_schema: Mapping[str, JsonValue] | None
    output_schema: Mapping[str, JsonValue] | None
    annotations: Mapping[str, JsonValue]
    version: str | None = None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a field differs, and both sides of it as JSON, cut around the difference. None: it is not there."""

    path: str
    registered: str | None
    advertised: str | None


@dataclass(frozen=True, slots=True)
class Difference:
    """`field` and `places` are those of a changed tool; `more` counts the places that are not told."""

    kind: Kind
    tool: str
    field: Field | None = None
    places: tuple[Place, ...] = ()
    more: int = 0


def compare(
    catalog: Catalog, advertised: Sequence[Advertised], expected: Collection[str] | None = None
) -> list[Difference]:
    """What differs, the worst first. `expected`: the tools that must be advertised, in place of all published ones."""
    found: list[Difference] = []
    seen: set[str] = set()
    for each in advertised:
        name, entry = _cut(each.name, _LONGEST_NAME), catalog.get(each.name)
        if each.name in seen:
            found.append(Difference("repeated", name))
        elif entry is None:
            found.append(Difference("extra", name))
        elif not entry.manifest.published:
            found.append(Difference("internal", name))
        if entry is not None:
            registered = entry.description
            ours = Advertised(
                name,
                registered.description,
                cast("dict[str, JsonValue]", registered.input_schema),
                cast("dict[str, JsonValue]", registered.output_schema),
                registered.annotations,
                registered.version,
            )
            found.extend(changes(ours, each))
        seen.add(each.name)
    wanted = {entry.manifest.name for entry in catalog.published()} if expected is None else expected
    found.extend(Difference("missing", name) for name in wanted if name not in seen)
    return sorted(found, key=lambda each: (_WORST_FIRST.index(each.kind), each.tool))


def changes(registered: Advertised, advertised: Advertised) -> Iterator[Difference]:
    """What differs between a tool as it was and as it is advertised now, field by field."""
    sides: list[tuple[Field, object, object, _Position]] = [
        ("description", registered.description, advertised.description, "data"),
        ("input_schema", registered.input_schema, advertised.input_schema, "schema"),
        ("output_schema", registered.output_schema, advertised.output_schema, "schema"),
        ("annotations", _with_defaults(registered.annotations), _with_defaults(advertised.annotations), "data"),
    ]
    if advertised.version is not None:
        sides.insert(0, ("version", registered.version, advertised.version, "data"))
    for field, ours, theirs, position in sides:
        if theirs is None and ours is not None:
            yield Difference("changed", registered.name, field, (Place(field, _json(ours), None),))
            continue
        places = _places(field, ours, theirs, position)
        if shown := tuple(islice(places, SHOWN_PLACES)):
            yield Difference("changed", registered.name, field, shown, sum(1 for _ in places))


def _with_defaults(annotations: Mapping[str, object]) -> dict[str, object]:
    """A hint that is left out has the value that the specification gives it; what only reads neither destroys nor adds.

    https://modelcontextprotocol.io/specification/2025-11-25/schema#toolannotations
    """
    reads = annotations.get("readOnlyHint") is True
    defaults = {"readOnlyHint": False, "destructiveHint": not reads, "idempotentHint": reads, "openWorldHint": True}
    return {**defaults, **annotations}


def _places(path: str, ours: object, theirs: object, position: _Position) -> Iterator[Place]:
    """Every place in which two JSON values differ, as what they mean at that position of a JSON Schema."""
    if _is_object(ours) and _is_object(theirs):
        yield from _of_objects(path, ours, theirs, position)
    elif _is_list(ours) and _is_list(theirs):
        yield from _of_sets(path, ours, theirs) if position == "set" else _of_lists(path, ours, theirs, position)
    elif isinstance(ours, str) and isinstance(theirs, str):
        if ours != theirs:
            yield _of_texts(path, ours, theirs)
    elif _differ(ours, theirs):
        yield _place(path, _json(ours), _json(theirs))


def _is_object(value: object) -> TypeGuard[dict[str, object]]:
    return isinstance(value, dict)


def _is_list(value: object) -> TypeGuard[list[object]]:
    return isinstance(value, list)


def _differ(ours: object, theirs: object) -> bool:
    """Whether two values do, of which at most one is an object or a list. For Python a boolean is the number 0 or 1."""
    return isinstance(ours, bool) is not isinstance(theirs, bool) or ours != theirs


def _of_objects(path: str, ours: dict[str, object], theirs: dict[str, object], position: _Position) -> Iterator[Place]:
    for key in (*ours, *(each for each in theirs if each not in ours)):
        below = f"{path}.{key if _PLAIN_KEY.fullmatch(key) else json.dumps(key, ensure_ascii=False)}"
        if key not in theirs:
            yield _place(below, _json(ours[key]), None)
        elif key not in ours:
            yield _place(below, None, _json(theirs[key]))
        else:
            yield from _places(below, ours[key], theirs[key], _below(position, key))


def _below(position: _Position, key: str) -> _Position:
    match position:
        case "schemas":
            return "schema"
        case "schema" if key in _OF_SCHEMAS:
            return "schemas"
        case "schema" if key in _WITHOUT_ORDER:
            return "set"
        case "schema" if key in _OF_DATA:
            return "data"
        case "schema":
            return "schema"
        case _:
            return "data"


def _of_lists(path: str, ours: list[object], theirs: list[object], position: _Position) -> Iterator[Place]:
    for n in range(max(len(ours), len(theirs))):
        below = f"{path}[{n}]"
        if n >= len(theirs):
            yield _place(below, _json(ours[n]), None)
        elif n >= len(ours):
            yield _place(below, None, _json(theirs[n]))
        else:
            yield from _places(below, ours[n], theirs[n], position)


def _of_sets(path: str, ours: list[object], theirs: list[object]) -> Iterator[Place]:
    left, right = ({_whole(each): each for each in side} for side in (ours, theirs))
    yield from (_place(path, _json(each), None) for key, each in left.items() if key not in right)
    yield from (_place(path, None, _json(each)) for key, each in right.items() if key not in left)


def _of_texts(path: str, ours: str, theirs: str) -> Place:
    """Cut around the first character that differs; its code point too where it can be taken for another."""
    differ = (n for n, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1])
    at = next(differ, min(len(ours), len(theirs)))
    begin = max(0, at - _BEFORE) if at > _AFTER else 0
    end = at + _AFTER

    def shown(text: str) -> str:
        part = ("…" if begin else "") + text[begin:end] + ("…" if len(text) > end else "")
        code = f" (U+{ord(text[at]):04X})" if at < len(text) and not text[at].isascii() else ""
        return json.dumps(part, ensure_ascii=False) + code

    where = f" from character {at + 1}" if max(len(ours), len(theirs)) > _AFTER else ""
    return Place(_cut(path, _LONGEST_PATH) + where, shown(ours), shown(theirs))


def _place(path: str, ours: str | None, theirs: str | None) -> Place:
    return Place(_cut(path, _LONGEST_PATH), ours, theirs)


def _whole(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, sort_keys=True)


def _json(value: object) -> str:
    return _cut(_whole(value), _BEFORE + _AFTER)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + "…"
