"""Arguments of a call: strict validation, and what a refusal may say of them (never a value, never an unknown key)."""

import json
from collections.abc import Mapping
from functools import cache
from typing import Any, Literal, TypeVar, cast

from pydantic import JsonValue, ValidationError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import CoreSchema, ErrorDetails

from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation
from tools.protocol import Arguments, Refusal

JsonSchema = dict[str, Any]
A = TypeVar("A", bound=Arguments)

INPUT_SCHEMA = "the tool's input_schema"
NOT_JSON = "its arguments are not valid JSON text"


class _WithoutTitles(GenerateJsonSchema):
    """Titles repeat the field names; an agent pays for each of them."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def generate(self, schema: CoreSchema, mode: Literal["validation", "serialization"] = "validation") -> JsonSchema:
        generated = super().generate(schema, mode)
        for each in (generated, *generated.get("$defs", {}).values()):
            each.pop("title", None)
        return generated


@cache
def object_schema(model: type[Model], mode: Literal["validation", "serialization"] = "validation") -> JsonSchema:
    """The model's JSON Schema (2020-12), closed by `additionalProperties: false`. Shared: not to be changed."""
    return model.model_json_schema(mode=mode, schema_generator=_WithoutTitles)


def validate(model: type[A], arguments: Mapping[str, JsonValue]) -> A | Refusal:
    """The arguments as `model`, or INVALID_INPUT with the known fields that do not fit and what would.

    Strict JSON mode: `true`, `"100"`, `100.0` and `1e2` are not integers.
    """
    try:
        text = json.dumps(arguments, allow_nan=False)
    except ValueError:
        return _invalid([], [NOT_JSON])
    try:
        return model.model_validate_json(text)
    except ValidationError as error:
        return _invalid(*explain(model, error))


def explain(model: type[Model], error: ValidationError, schema: str = INPUT_SCHEMA) -> tuple[list[str], list[str]]:
    """(the known fields that do not fit, what is wrong in our words), each named once. `schema`: what to call it."""
    fields: list[str] = []
    problems: list[str] = []
    for each in error.errors(include_url=False, include_input=False, include_context=False):
        field, problem = _explain(object_schema(model), each, schema)
        if field is not None and field not in fields:
            fields.append(field)
        if problem not in problems:
            problems.append(problem)
    return fields, problems


def _invalid(fields: list[str], problems: list[str]) -> Refusal:
    explanation = Explanation(values={"problem": "; ".join(problems)}, invalid_fields=tuple(fields))
    return Refusal(code=Code.INVALID_INPUT, explanation=explanation)


def _explain(root: JsonSchema, error: ErrorDetails, name: str) -> tuple[str | None, str]:
    """The known field an error is about (`address.city`), if any, and our words for it."""
    if error["type"] == "json_invalid":
        return None, NOT_JSON
    path: list[str] = []
    schema = root
    for part in error["loc"]:
        deeper = _property(root, schema, part)
        if deeper is None:
            break
        schema = deeper
        if isinstance(part, str):
            path.append(part)
    field = ".".join(path) or None
    if error["type"] == "extra_forbidden":
        return field, f"{field or 'it'} has a field that {name} does not know"
    if field is None:
        return None, "its arguments must be an object"
    if error["type"] == "missing":
        return field, f"{field} is required and must be {describe(root, schema)}"
    return field, f"{field} must be {describe(root, schema)}"


def _property(root: JsonSchema, schema: JsonSchema, part: int | str) -> JsonSchema | None:
    """The schema one step down; None where `part` is no name of the schema's own (an unknown key, a union's tag)."""
    for option in options(root, schema):
        below = option.get("items") if isinstance(part, int) else option.get("properties", {}).get(part)
        if isinstance(below, dict):
            return cast("JsonSchema", below)
    return None


def options(root: JsonSchema, schema: JsonSchema) -> list[JsonSchema]:
    """The schema with references followed and alternatives spread out."""
    if "$ref" in schema:
        return options(root, root["$defs"][str(schema["$ref"]).removeprefix("#/$defs/")])
    if "anyOf" in schema:
        return [option for each in schema["anyOf"] for option in options(root, each)]
    return [schema]


def describe(root: JsonSchema, schema: JsonSchema) -> str:
    """What a field may hold, in words: `an integer from 100 to 50000`, `text of at most 280 characters`."""
    choices = options(root, schema)
    words = [_describe_one(choice) for choice in choices if choice.get("type") != "null"]
    if len(words) < len(choices):
        words.append("left out")
    return " or ".join(words)


def _describe_one(schema: JsonSchema) -> str:
    if "enum" in schema:
        return "one of " + ", ".join(str(each) for each in schema["enum"])
    if "const" in schema:
        return str(schema["const"])
    match schema.get("type"):
        case "integer":
            return "an integer" + _range(schema.get("minimum"), schema.get("maximum"), "")
        case "string":
            length = _range(schema.get("minLength"), schema.get("maxLength"), " characters")
            return f"text{length}" + (f" that matches {schema['pattern']}" if "pattern" in schema else "")
        case "boolean":
            return "true or false"
        case "array":
            return "a list" + _range(schema.get("minItems"), schema.get("maxItems"), " items")
        case "object":
            return "an object"
        case _:
            return "what the tool's input_schema says"


def _range(low: int | None, high: int | None, unit: str) -> str:
    of = " of" if unit else ""
    match low, high:
        case None, None:
            return ""
        case None, _:
            return f"{of} at most {high}{unit}"
        case _, None:
            return f"{of} at least {low}{unit}"
        case _:
            return f"{of or ' from'} {low} to {high}{unit}"
