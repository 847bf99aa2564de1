"""The models of a declared tool: what its fields say, as pydantic checks it."""

from collections.abc import Mapping
from datetime import date, datetime
from typing import Annotated, Any, Literal, TypeVar, cast

from pydantic import AfterValidator, AwareDatetime, Field, JsonValue, StringConstraints, create_model

from policy.values import ABSENT, look_up
from schemas.base import Model
from tools.declared.document import FieldText

M = TypeVar("M", bound=Model)

_DATE = r"^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"


def _is_date(text: str) -> str:
    """Raises ValueError for the 31st of February."""
    date.fromisoformat(text)
    return text


def model_of(name: str, fields: Mapping[str, FieldText], base: type[M], *, bounded: bool) -> type[M]:
    """A closed, strict model of these fields. `bounded`: lists are held to their `maxItems`, which in what is answered
    to an agent is the manifest's to do."""
    made: dict[str, Any] = {}
    for field, text in fields.items():
        annotation = _annotation(f"{name}_{field}", text, bounded=bounded)
        default: Any = ...
        if text.optional:
            annotation, default = annotation | None, None
        made[field] = (Annotated[annotation, Field(description=text.description)], default)
    return create_model(name, __base__=base, **made)


def _annotation(name: str, text: FieldText, *, bounded: bool) -> Any:
    match text.type:
        case "integer":
            return Annotated[int, Field(ge=text.minimum, le=text.maximum)]
        case "boolean":
            return bool
        case "array":
            entry = _annotation(name, text.items or text, bounded=bounded)
            return Annotated[tuple[entry, ...], Field(max_length=text.most_items if bounded else None)]
        case "object":
            return model_of(name, text.properties or {}, Model, bounded=bounded)
        case "string":
            return _string(text)


def _string(text: FieldText) -> Any:
    if text.enum is not None:
        return Literal[text.enum]  # pyright: ignore[reportInvalidTypeForm]  # known at run time
    match text.format:
        case "date":
            checked = AfterValidator(_is_date)
            return Annotated[
                str, StringConstraints(pattern=_DATE), checked, Field(json_schema_extra={"format": "date"})
            ]
        case "date-time":
            return AwareDatetime
        case _:
            return Annotated[
                str,
                StringConstraints(pattern=text.pattern, min_length=text.least_length, max_length=text.most_length),
            ]


def taken(fields: Mapping[str, FieldText], answer: JsonValue, at: datetime) -> dict[str, JsonValue]:
    """Pure. What the fields find in an answer, still to be checked by their model. Ages are whole minutes until `at`;
    what cannot be one is taken as it is."""
    values: dict[str, object] = {"answer": answer}
    found: dict[str, JsonValue] = {}
    for name, field in fields.items():
        path = (field.source or name).split(".")
        value = look_up(values, ("answer", *path))
        if value is ABSENT or value is None:
            continue
        found[name] = _converted(field, cast(JsonValue, value), at)
    return found


def _converted(field: FieldText, value: JsonValue, at: datetime) -> JsonValue:
    if field.format == "age-minutes" and isinstance(value, str):
        return _age(value, at)
    if field.type == "object" and field.properties is not None:
        return taken(field.properties, value, at)
    if field.type == "array" and field.items is not None and isinstance(value, list):
        return [_converted(field.items, each, at) for each in value]
    return value


def _age(since: str, at: datetime) -> JsonValue:
    try:
        minutes = (at - datetime.fromisoformat(since)).total_seconds() // 60
    except (ValueError, TypeError):
        return since
    return int(minutes)
