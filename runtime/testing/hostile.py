"""Arguments that must not be taken, made of a tool's input schema."""

from collections.abc import Iterator, Mapping
from typing import Annotated, cast

from pydantic import JsonValue, StringConstraints, TypeAdapter, ValidationError

from tools.arguments import JsonSchema, options
from tools.declared.checking import BOUND

_LOOK_ALIKE = str.maketrans("0123456789", "".join(chr(0xFF10 + digit) for digit in range(10)))
_NOT_IN_ANY_ENUM = "no_such_value"
Arguments = dict[str, JsonValue]


def hostile_arguments(schema: JsonSchema, call: Mapping[str, JsonValue]) -> Iterator[tuple[str, Arguments]]:
    """(what is tried, the arguments), each one thing away from `call`, which is right."""
    yield "an unknown argument", {**call, "no_such_argument": 1}
    for name in sorted(BOUND):
        yield f"{name} as an argument", {**call, name: "someone"}
    yield from _of_object(schema, schema, dict(call), "")


def _of_object(root: JsonSchema, schema: JsonSchema, value: Arguments, where: str) -> Iterator[tuple[str, Arguments]]:
    required = cast("list[str]", schema.get("required", []))
    properties = cast("dict[str, JsonSchema]", schema.get("properties", {}))
    if where:
        yield f"an unknown field in {where}", {**value, "no_such_field": 1}
    for name, declared in properties.items():
        below = f"{where}.{name}" if where else name
        if name in required:
            yield f"{below} left out", {key: each for key, each in value.items() if key != name}
        for tried, bad in _of_value(root, declared, value.get(name), below):
            yield tried, {**value, name: bad}


def _of_value(root: JsonSchema, declared: JsonSchema, given: JsonValue, where: str) -> Iterator[tuple[str, JsonValue]]:
    choices = options(root, declared)
    if not any(each.get("type") == "null" for each in choices):
        yield f"{where} as null", None
    (schema, *others) = [each for each in choices if each.get("type") != "null"]
    if others:
        return
    match schema.get("type"):
        case "integer":
            yield from _of_integer(schema, given if isinstance(given, int) else 1, where)
        case "boolean":
            yield from ((f"{where} as {bad!r}", bad) for bad in cast("list[JsonValue]", ["true", 1, 0.0]))
        case "array":
            yield f"{where} as a text", "text"
            entries = given if isinstance(given, list) else []
            if "maxItems" in schema and entries:
                yield f"{where} with too many entries", (entries * (schema["maxItems"] + 1))[: schema["maxItems"] + 1]
        case "object":
            yield f"{where} as a text", "text"
            if isinstance(given, dict):
                yield from _of_object(root, schema, given, where)
        case _:
            yield from _of_text(schema, given if isinstance(given, str) else None, where)


def _of_integer(schema: JsonSchema, given: int, where: str) -> Iterator[tuple[str, JsonValue]]:
    yield f"{where} as a decimal number", given + 0.5
    yield f"{where} as a whole number with a point", float(given)
    yield f"{where} as a boolean", True
    yield f"{where} as a text", str(given)
    if "minimum" in schema:
        yield f"{where} under its minimum", schema["minimum"] - 1
    if "maximum" in schema:
        yield f"{where} over its maximum", schema["maximum"] + 1


def _of_text(schema: JsonSchema, given: str | None, where: str) -> Iterator[tuple[str, JsonValue]]:
    yield f"{where} as a number", 1
    yield f"{where} as a boolean", True
    if "enum" in schema or "const" in schema:
        yield f"{where} that is none of those there are", _NOT_IN_ANY_ENUM
    if "maxLength" in schema:
        yield f"{where} that is too long", "x" * (schema["maxLength"] + 1)
    if "pattern" in schema or schema.get("format") in ("date", "date-time"):
        text = given or "0"
        if any(each.isdigit() for each in text) and "0-9" in str(schema.get("pattern", "0-9")):
            yield f"{where} with look-alike digits", text.translate(_LOOK_ALIKE)
        if not _takes(schema, text + "\n"):  # lines are meant, where it does
            yield f"{where} with a line break after it", text + "\n"
        yield f"{where} with a NUL in it", text + "\0"
        yield f"{where} with an invisible character after it", text + "\u200b"


def _takes(schema: JsonSchema, text: str) -> bool:
    """Whether the pattern itself, not only its lack of an end, takes the whole text."""
    whole = rf"\A(?:{schema.get('pattern', '.')})\z"
    try:
        TypeAdapter(Annotated[str, StringConstraints(pattern=whole)]).validate_python(text)
    except ValidationError:
        return False
    return True
