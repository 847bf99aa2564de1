"""YAML without its surprises, for files that people write; and where in the file each thing stands."""

import json
import pathlib
import re
from collections.abc import Hashable, Iterator
from typing import Any, NamedTuple

import yaml
from pydantic_core import ErrorDetails

Path = tuple[int | str, ...]
"""The names and indexes that lead to a value."""


ODD = "holds something that is neither text, a whole number, a list nor a mapping of names"


class UnreadableError(Exception):
    """Not YAML, YAML that means two things, or no file that can be read. Says the line and what is wrong with it, never
    the file's text."""


class Content(NamedTuple):
    """What a file holds. `as_json` is for pydantic, whose strict JSON mode takes a list for a tuple and still refuses
    every other conversion. `lines`: the line that each value begins on."""

    value: object
    as_json: str
    lines: dict[Path, int]


class _Loader(yaml.CSafeLoader):
    """No repeated keys, and only `true`, `false`, `null` and decimal integers mean something other than text.

    YAML 1.1 would read `no` as false, `24:00` as 1440 and `010` as 8.
    """

    yaml_implicit_resolvers = {}  # noqa: RUF012 - how PyYAML is told

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(None, None, "a name must be text", key.start_mark)
            if key.value in seen:
                problem = f"{key.value} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("bool", r"true|false", "tf"),
    ("int", r"-?(?:0|[1-9][0-9_]*)", "-0123456789"),
    ("null", r"null|~|", ["n", "~", ""]),
):
    _Loader.add_implicit_resolver(  # pyright: ignore[reportUnknownMemberType]  # untyped stub
        f"tag:yaml.org,2002:{_tag}", re.compile(f"(?:{_pattern})$"), list(_first)
    )


def read(path: pathlib.Path) -> Content:
    """What the one document of a file says. Raises UnreadableError."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise UnreadableError(f"cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UnreadableError("is not UTF-8 text") from None
    return content_of(text)


def content_of(text: str) -> Content:
    """What the one document of a text says. Raises UnreadableError."""
    try:
        value, lines = loads(text)
        return Content(value, json.dumps(value), lines)
    except (TypeError, ValueError, RecursionError):
        raise UnreadableError(ODD) from None


def loads(text: str) -> tuple[object, dict[Path, int]]:
    """(what the one document of `text` says, the line that each value in it begins on). Raises UnreadableError."""
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        content: object = None
        if node is not None:
            content = loader.construct_document(node)  # pyright: ignore[reportUnknownMemberType]  # untyped stub
        return content, dict(_lines(node, ())) if node is not None else {}
    except yaml.YAMLError as error:
        raise UnreadableError(_problem(error)) from None
    except (ValueError, RecursionError):
        raise UnreadableError(ODD) from None


def _lines(node: yaml.Node, path: Path) -> Iterator[tuple[Path, int]]:
    yield path, node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            yield from _lines(value, (*path, key.value))
            yield (*path, key.value), key.start_mark.line + 1
    elif isinstance(node, yaml.SequenceNode):
        for index, value in enumerate(node.value):
            yield from _lines(value, (*path, index))


def _problem(error: yaml.YAMLError) -> str:
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return "is not YAML"
    return f"line {error.problem_mark.line + 1}, column {error.problem_mark.column + 1}: {error.problem}"


def said(error: ErrorDetails) -> str:
    """A validation error of pydantic in the words of a file."""
    match error["type"]:
        case "extra_forbidden":
            return "there is no such field"
        case "missing":
            return "is missing"
        case "json_invalid":
            return ODD
        case "value_error":
            return error["msg"].removeprefix("Value error, ")
        case "string_pattern_mismatch":
            return f"must match {error.get('ctx', {}).get('pattern')}"
        case "enum" | "literal_error":
            return f"must be {error.get('ctx', {}).get('expected')}"
        case "union_tag_invalid" | "union_tag_not_found":
            context = error.get("ctx", {})
            return f"needs a {str(context.get('discriminator')).strip(chr(39))} of those that there are"
        case "model_type" | "dict_type" | "tuple_type":
            return "must be a list" if error["type"] == "tuple_type" else "must be a mapping of names"
        case _:
            return error["msg"][0].lower() + error["msg"][1:]
