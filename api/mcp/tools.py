"""Tools as the protocol describes them: made once of each catalog entry, beside two of our own for calls that wait."""

from typing import Annotated, cast

from mcp_types import CallToolResult, TextContent, Tool, ToolAnnotations, ToolExecution
from pydantic import Field

from api.asking import LONGEST_WAIT
from api.problems import is_problem
from schemas.replies import Reply
from tools.arguments import JsonSchema, object_schema
from tools.catalog import Entry
from tools.protocol import Arguments

VERSION_KEY = "counterseal/version"
"""In a tool's `_meta`: the protocol has no field for its version."""
REQUEST_ID = "The request_id of a call, act_…"


class CheckCall(Arguments):
    request_id: Annotated[str, Field(max_length=64, description=REQUEST_ID)]
    wait_seconds: Annotated[
        int, Field(ge=0, le=LONGEST_WAIT, description="How long to wait for the call to change; 0 answers at once")
    ] = 0


class WithdrawCall(Arguments):
    request_id: Annotated[str, Field(max_length=64, description=REQUEST_ID)]


class Definitions:
    """Of catalog entries, kept; a tool's output is the reply object, whose `result` is what the tool declares."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Entry, Tool]] = {}

    def of(self, entry: Entry) -> Tool:
        name = entry.manifest.name
        made = self._made.get(name)
        if made is None or made[0] is not entry:
            made = self._made[name] = (entry, _define(entry))
        return made[1]

    def input_schema(self, name: str) -> JsonSchema | None:
        """Of a tool that was listed or called here before."""
        made = self._made.get(name)
        return None if made is None else made[1].input_schema


def _define(entry: Entry) -> Tool:
    described = entry.description
    return Tool(
        name=described.name,
        title=entry.manifest.title,
        description=described.description,
        input_schema=described.input_schema,
        output_schema=reply_schema(described.output_schema),
        annotations=ToolAnnotations.model_validate(described.annotations),
        # Clients of 2025-11-25 may ask for a task; later ones say that they take one, and the service decides.
        execution=ToolExecution(task_support="optional"),
        _meta={VERSION_KEY: described.version},
    )


def reply_schema(result: JsonSchema | None = None) -> JsonSchema:
    """The JSON Schema of the reply object with that of its `result`. Replies leave out what does not apply."""
    whole = object_schema(Reply, mode="serialization")
    properties = {name: _present(schema) for name, schema in whole["properties"].items()}
    definitions = {name: schema for name, schema in whole["$defs"].items() if name != "JsonValue"}
    own = cast("JsonSchema", {} if result is None else result.get("$defs", {}))
    if any(definitions[name] != own[name] for name in definitions.keys() & own.keys()):
        raise ValueError("the output schema defines what the reply object defines otherwise")
    definitions |= own
    if result is None:
        properties["result"] = {"type": "object", "additionalProperties": True}
    else:
        properties["result"] = {name: value for name, value in result.items() if name != "$defs"}
    return {
        "type": "object",
        "description": "What became of the call. `result` is there where it was executed.",
        "properties": properties,
        "required": whole["required"],
        "additionalProperties": False,
        "$defs": definitions,
    }


def _present(schema: JsonSchema) -> JsonSchema:
    """A field where it is given: without `null`, and without the default that says so."""
    choices = [each for each in schema.get("anyOf", ()) if each.get("type") != "null"]
    rest = {name: value for name, value in schema.items() if name not in ("anyOf", "default")}
    match choices:
        case []:
            return rest
        case [one]:
            return {**rest, **one}
        case _:
            return {**rest, "anyOf": choices}


def result_of(reply: Reply, *, is_error: bool | None = None) -> CallToolResult:
    """The reply as a tool's result: an error for the model where HTTP would answer with a problem."""
    return CallToolResult(
        content=[TextContent(text=reply.to_json())],
        structured_content=reply.model_dump(mode="json", exclude_none=True),
        is_error=is_problem(reply) if is_error is None else is_error,
    )


CHECK = Tool(
    name="check_call",
    title="Check a call",
    description="Tells how a call stands that you made before, by its request_id: use it for one that answered "
    "pending_approval, in_progress or outcome_unknown. A person may take hours to decide: look again later rather than "
    "again and again, and do not send the call itself again.",
    input_schema=object_schema(CheckCall),
    output_schema=reply_schema(),
    annotations=ToolAnnotations(
        title="Check a call", read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
    ),
)
WITHDRAW = Tool(
    name="withdraw_call",
    title="Withdraw a call",
    description="Takes back a call of yours that waits for a person (pending_approval), by its request_id. Nothing is "
    "then done for it. One that no longer waits is left as it is, and you are told how it stands.",
    input_schema=object_schema(WithdrawCall),
    output_schema=reply_schema(),
    annotations=ToolAnnotations(
        title="Withdraw a call",
        read_only_hint=False,
        destructive_hint=True,
        idempotent_hint=True,
        open_world_hint=False,
    ),
)
