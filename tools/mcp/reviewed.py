"""`reviewed.json` in a tool's folder: what the pins of its `mcp.yaml` are digests of, so that a change can be read."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import ConfigDict, Field, JsonValue, ValidationError
from pydantic.alias_generators import to_camel

from gateways.upstreams import Definition
from schemas.base import Model

FILE = "reviewed.json"


class _Text(Model):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_alias=True, validate_by_name=False)

    name: str
    title: str | None = None
    description: str | None = None
    input_schema: dict[str, JsonValue]
    output_schema: dict[str, JsonValue] | None = None
    annotations: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


def read_reviewed(folder: Path) -> dict[str, Definition]:
    """By the upstream's names; empty where there is no such file. Raises ValueError where it holds something else."""
    file = folder / FILE
    if not file.exists():
        return {}
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
        return {text.name: Definition(**dict(text)) for text in map(_Text.model_validate, content["tools"])}
    except (ValidationError, ValueError, TypeError, KeyError):
        raise ValueError(f"{file}: holds something else than definitions of tools") from None


def write_reviewed(folder: Path, definitions: Mapping[str, Definition]) -> None:
    """Raises OSError."""
    tools = [definitions[name].as_json() for name in sorted(definitions)]
    text = json.dumps({"tools": tools}, indent=2, sort_keys=True) + "\n"
    (folder / FILE).write_text(text, encoding="utf-8")


def unreviewed(folder: Path, pins: Mapping[str, str]) -> Iterator[str]:
    """A line for each pin that is another one than that of what the folder says was reviewed."""
    try:
        reviewed = read_reviewed(folder)
    except ValueError as problem:
        yield str(problem)
        return
    for tool, pin in pins.items():
        if tool in reviewed and reviewed[tool].pin != pin:
            yield f"pin: that of {tool} is not the one of what {FILE} says was reviewed"
