"""What clients say of a call beside its arguments, in `_meta`, and the arguments with it."""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field, JsonValue

from api.asking import LONGEST_WAIT
from api.parsing import parse
from api.problems import refuse
from schemas.base import Model
from schemas.codes import Code
from schemas.replies import Explanation
from tools.catalog import Entry
from tools.protocol import IdempotencyKey

PREFIX = "counterseal/"
"""Of names in `_meta`: https://modelcontextprotocol.io/specification/2026-07-28/basic#_meta"""


class Said(Model):
    """`counterseal/idempotency_key` for clients that keep the key from their model, `counterseal/dry_run`, and
    `counterseal/wait_seconds`: how long the answer may wait for the call to settle or park."""

    idempotency_key: IdempotencyKey | None = None
    dry_run: bool = False
    wait_seconds: Annotated[int, Field(ge=0, le=LONGEST_WAIT)] = 20


def said_in(meta: Mapping[str, Any] | None) -> Said:
    """Raises Refused: INVALID_INPUT."""
    given: dict[str, JsonValue] = {
        name: meta[PREFIX + name] for name in Said.model_fields if meta and PREFIX + name in meta
    }
    return parse(Said, given) if given else Said()


def with_key(entry: Entry | None, arguments: dict[str, JsonValue], said: Said) -> dict[str, JsonValue]:
    """The arguments of a call that writes, with the key that was said beside them. Raises Refused where they have
    another."""
    key = said.idempotency_key
    if key is None or entry is None or not entry.manifest.writes:
        return arguments
    if arguments.get("idempotency_key", key) != key:
        problem = f"idempotency_key is not what {PREFIX}idempotency_key in _meta says"
        raise refuse(Code.INVALID_INPUT, Explanation(values={"problem": problem}, invalid_fields=("idempotency_key",)))
    return {**arguments, "idempotency_key": key}
