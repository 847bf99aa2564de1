"""The names that a tool's conditions may use, taken from the JSON Schemas of its arguments and facts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, cast

Kind = Literal["text", "time", "integer", "boolean", "list", "object", "other"]
Schema = Mapping[str, Any]

SCALARS: frozenset[Kind] = frozenset(("text", "time", "integer", "boolean"))
_KINDS: dict[str, Kind] = {
    "string": "text",
    "integer": "integer",
    "boolean": "boolean",
    "array": "list",
    "object": "object",
}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`names` maps dotted names (`args.amount_cents`, `facts.order.status`) to what they hold.

    `untrusted` are the arguments that carry the agent's own words. A tool that only reads (`writes` is false) is
    answered at once: it has no facts, is not counted and waits for nobody. `classes` are its capability classes,
    `roles` the only groups that may decide about it, where it says so.
    """

    names: Mapping[str, Kind]
    untrusted: frozenset[str]
    writes: bool
    classes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        arguments: Schema,
        facts: Schema | None = None,
        untrusted: Iterable[str] = (),
        classes: Iterable[str] = (),
        roles: Iterable[str] = (),
    ) -> "Vocabulary":
        """From two JSON Schemas (2020-12) as pydantic writes them; without facts, of a tool that only reads."""
        names = dict(_names("args", arguments, arguments))
        if facts is not None:
            names.update(_names("facts", facts, facts))
        return cls(names, frozenset(untrusted), facts is not None, tuple(classes), tuple(roles))


def _names(prefix: str, schema: Schema, root: Schema) -> Iterator[tuple[str, Kind]]:
    properties = cast(Mapping[str, Schema], schema.get("properties", {}))
    for name, declared in properties.items():
        below = _resolved(declared, root)
        path = f"{prefix}.{name}"
        yield path, _kind(below)
        yield from _names(path, below, root)


def _resolved(schema: Schema, root: Schema) -> Schema:
    """The schema behind a reference, or behind the one alternative that is not null."""
    if "$ref" in schema:
        return _resolved(root["$defs"][str(schema["$ref"]).removeprefix("#/$defs/")], root)
    options = [_resolved(option, root) for option in cast(list[Schema], schema.get("anyOf", []))]
    options = [option for option in options if option.get("type") != "null"]
    return options[0] if len(options) == 1 else schema


def _kind(schema: Schema) -> Kind:
    if schema.get("format") == "date-time":
        return "time"
    return _KINDS.get(str(schema.get("type")), "other")
