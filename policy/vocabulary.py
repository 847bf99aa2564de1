"""The names that a tool's conditions may use, taken from the JSON Schemas of its arguments and facts."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from schemas.calls import RunFacts

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

# Two values of each kind, on which a condition is tried: it must answer true or false to both.
SAMPLES: dict[Kind, tuple[object, object]] = {
    "text": ("a", "b"),
    "time": ("2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"),
    "integer": (1, 2),
    "boolean": (False, True),
    "list": ([], []),
    "other": (None, None),
}


@dataclass(frozen=True, slots=True)
class Domain:
    """What a name can hold: whole numbers from `least` to `most`, or one of `choices`; None where that is open.

    `optional`: it may be missing or null.
    """

    least: int | None = None
    most: int | None = None
    choices: tuple[str, ...] | None = None
    optional: bool = False


# What the run did before, `schemas.calls.RunFacts`: the same for every tool.
RUN: Mapping[str, Kind] = {f"run.{name}": "list" for name in RunFacts.model_fields}


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`names` maps dotted names (`args.amount_cents`, `facts.order.status`) to what they hold, `domains` to the values
    that they can have.

    `untrusted` are the arguments that carry the agent's own words. A tool that only reads (`writes` is false) is
    answered at once: it has no facts, is not counted and waits for nobody. `classes` are its capability classes,
    `roles` the only groups that may decide about it, where it says so, and `kinds` all that it is to a policy's
    `across`.
    """

    names: Mapping[str, Kind]
    untrusted: frozenset[str]
    writes: bool
    classes: tuple[str, ...] = ()
    roles: tuple[str, ...] = ()
    domains: Mapping[str, Domain] = field(default_factory=dict[str, Domain])
    kinds: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        arguments: Schema,
        facts: Schema | None = None,
        untrusted: Iterable[str] = (),
        classes: Iterable[str] = (),
        roles: Iterable[str] = (),
        kinds: Iterable[str] = (),
    ) -> "Vocabulary":
        """From two JSON Schemas (2020-12) as pydantic writes them; without facts, of a tool that only reads."""
        known = dict(_names("args", arguments, arguments, optional=False))
        if facts is not None:
            known.update(_names("facts", facts, facts, optional=False))
        return cls(
            {**RUN, **{name: kind for name, (kind, _) in known.items()}},
            frozenset(untrusted),
            writes=facts is not None,
            classes=tuple(classes),
            roles=tuple(roles),
            domains={name: domain for name, (_, domain) in known.items()},
            kinds=tuple(kinds),
        )


def _names(prefix: str, schema: Schema, root: Schema, *, optional: bool) -> Iterator[tuple[str, tuple[Kind, Domain]]]:
    properties = cast(Mapping[str, Schema], schema.get("properties", {}))
    required = cast(list[str], schema.get("required", []))
    for name, declared in properties.items():
        below = _resolved(declared, root)
        path = f"{prefix}.{name}"
        missable = optional or name not in required or "anyOf" in declared
        yield path, (_kind(below), _domain(below, optional=missable))
        yield from _names(path, below, root, optional=missable)


def _domain(schema: Schema, *, optional: bool) -> Domain:
    """Null is in no enumeration and below no bound, so there are none where it may be."""
    if optional:
        return Domain(optional=True)
    least, most = schema.get("minimum"), schema.get("maximum")
    choices = [schema["const"]] if "const" in schema else cast(list[object], schema.get("enum", []))
    texts = tuple(each for each in choices if isinstance(each, str))
    return Domain(
        least if isinstance(least, int) else None,
        most if isinstance(most, int) else None,
        texts if texts and len(texts) == len(choices) else None,
    )


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
