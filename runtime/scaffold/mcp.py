"""A new tool's folder that calls a tool of an MCP server: made of what that advertises, as strictly as can be said,
and of critical risk until a person has said what it is."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateways.upstreams import Definition
from runtime.scaffold import write_folder
from tools.declared.checking import BOUND
from tools.declared.document import FieldText
from tools.mcp.load import FILE
from tools.mcp.reviewed import write_reviewed

_LONGEST = 200
_NAME = re.compile(r"[a-z][a-z0-9_]{0,62}")
_CUSTOMER = frozenset(("customer", "customer_id"))


def scaffold_of_mcp(root: Path, name: str, upstream: str, definition: Definition) -> list[Path]:
    """Write the folder `root/name`: the files that were made. Raises FileExistsError and OSError."""
    # A server's own word for it; who fills the folder in says whether that is so.
    reads = definition.annotations.get("readOnlyHint") is True
    properties: Mapping[str, Any] = definition.input_schema.get("properties", {})
    required = definition.input_schema.get("required", [])
    fields, send, left = dict[str, dict[str, Any]](), dict[str, str](), list[str]()
    for theirs, schema in properties.items():
        ours = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", theirs).lower()
        if ours in _CUSTOMER:
            send[theirs] = "$run.customer_id"
            continue
        field = _field(schema) if _NAME.fullmatch(ours) and ours not in BOUND else None
        if field is None:
            left.append(theirs)
            continue
        fields[ours] = field | ({} if theirs in required else {"optional": True})
        send[theirs] = f"$args.{ours}"
    lines = [*_lines(upstream, definition, fields, send, left, reads=reads)]
    made = write_folder(
        root,
        name,
        {"manifest_mcp.txt": "manifest.yaml", "policy_mcp.txt": "policy.yaml", "tests.txt": "tests/test_{name}.py"},
        {
            "SYSTEM": upstream,
            "WRITES": json.dumps(not reads),
            "OPERATION": "lookup" if reads else "change",
            "CLASSES": "read_private, read_untrusted" if reads else "write_side_effect",
            "IDEMPOTENCY": "natural" if reads else "none",
            "OTHERWISE": "free" if reads else "hold",
        },
    )
    folder = root / name
    (folder / FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")
    write_reviewed(folder, {definition.name: definition})
    return [*made, folder / FILE, folder / "reviewed.json"]


def _lines(
    upstream: str,
    definition: Definition,
    fields: Mapping[str, Mapping[str, Any]],
    send: Mapping[str, str],
    left: list[str],
    *,
    reads: bool,
) -> Iterator[str]:
    yield f"upstream: {upstream}"
    if fields:
        yield "arguments: # say what each is, and bound it as closely as it can be"
        yield from (f"  {name}: {json.dumps(field)}" for name, field in fields.items())
    yield from (f"# {json.dumps(name)} is not carried over: say it in `send`, or leave it out" for name in left)
    yield "read:" if reads else "write:"
    yield f"  tool: {json.dumps(definition.name)}"
    yield f"  pin: {json.dumps(definition.pin)}"
    yield f"  send: {json.dumps(dict(send))}"
    if reads:
        if "$run.customer_id" not in send.values():
            yield "  public: true # or belongs_to: where in the answer the id of the run's customer has to stand"
        yield "texts:"
        yield "  - { text: content } # the words of its answer; fields that are ids, states or numbers go into `result`"
        yield "done: asked what the tool says"
        return
    whole = [(theirs, ours) for theirs, ours in send.items() if fields.get(ours[6:], {}).get("type") == "integer"]
    equal = dict(whole) or {"say_which": "say what has to be ours in an answer"}
    yield "confirmed: # an answer counts when all of this in it is ours"
    yield "  id: id"
    yield f"  equal: {json.dumps(equal)}"
    yield "# inspect: how it is looked up whose answer was lost; without it a person is asked"
    yield 'result: { id: { pattern: "^[0-9A-Za-z_-]{1,64}$" } }'
    yield "title: Say what it will do"
    yield "done: said what it did"


def _field(schema: Any) -> dict[str, Any] | None:
    """A field that takes no more than the schema does; None for what has no such form."""
    if not isinstance(schema, dict):
        return None
    said: dict[str, Any] = schema  # pyright: ignore[reportUnknownVariableType]  # JSON
    match said.get("type"):
        case "string" if isinstance(said.get("enum"), list):
            made = {"enum": said["enum"]}
        case "string":
            made = {"maxLength": min(said.get("maxLength", _LONGEST), _LONGEST)}
        case "integer":
            made = {"type": "integer", "minimum": said.get("minimum", 0), "maximum": said.get("maximum", 1000)}
        case "boolean":
            made = {"type": "boolean"}
        case _:
            return None
    try:
        FieldText.model_validate_json(json.dumps(made))
    except ValueError:
        return None
    return made
