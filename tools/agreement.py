"""Whether what a manifest says and what the tool's code says is the same."""

from collections.abc import Iterator
from typing import Any

from schemas.tools import Manifest
from tools.arguments import JsonSchema, object_schema, options
from tools.protocol import ReadTool, WriteTool
from tools.results import COUNT, TRUNCATED

AnyTool = ReadTool[Any, Any] | WriteTool[Any, Any, Any]

_TRACEABLE = frozenset(("integer", "boolean"))


def disagreements(manifest: Manifest, tool: AnyTool, folder: str) -> Iterator[str]:
    """A line for each thing that the manifest says and the code or the folder does not: field, and what is wrong."""
    if not manifest.name == tool.name == folder:
        yield f"name: is {manifest.name}, the folder is {folder}, the tool's name is {tool.name}"
    if manifest.writes != isinstance(tool, WriteTool):
        yield f"writes: is {str(manifest.writes).lower()}, which the tool's class contradicts"
    arguments = object_schema(tool.arguments_model)
    properties: dict[str, JsonSchema] = arguments.get("properties", {})
    for field, names in (("trace", manifest.trace), ("redact", manifest.redact)):
        for name in names:
            if name not in properties or name == "idempotency_key":
                yield f"{field}: the tool has no argument {name}"
            elif field == "trace" and not _is_traceable(arguments, properties[name]):
                yield f"trace: {name} is neither an enum, a whole number nor a boolean"
    if isinstance(tool, WriteTool):
        shown = set(tool.amendable) & set(manifest.redact)
        if shown:
            yield f"redact: a person may change {', '.join(sorted(shown))}, and so has to see it"
        return
    result = object_schema(tool.result_model, mode="serialization")
    fields: dict[str, JsonSchema] = result.get("properties", {})
    if any(each.get("type") == "array" for each in fields.values()) and not {COUNT, TRUNCATED} <= fields.keys():
        yield f"result_max_items: a result with a list needs the fields {COUNT} and {TRUNCATED}"


def _is_traceable(root: JsonSchema, schema: JsonSchema) -> bool:
    given = [each for each in options(root, schema) if each.get("type") != "null"]
    return all("enum" in each or "const" in each or each.get("type") in _TRACEABLE for each in given)
