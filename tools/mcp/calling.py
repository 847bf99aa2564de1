"""Reads of an upstream: what one answers, when it is the customer's own and what was reviewed."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from gateways.protocols import SystemUnavailable
from gateways.upstreams import Called, Changed, Upstream
from policy.values import look_up
from schemas.codes import Code
from schemas.replies import Explanation
from tools.declared.absence import no_such
from tools.declared.references import at, error_of, names_in, resolve
from tools.mcp.document import Call, Read
from tools.protocol import Refusal

QUARANTINED = Refusal(code=Code.CAPABILITY_DISABLED, explanation=Explanation())
"""The upstream's tool is not what was reviewed: nobody calls it until somebody has looked."""


def arguments_of(call: Call, values: Mapping[str, object]) -> tuple[dict[str, JsonValue], dict[str, JsonValue]]:
    """(arguments, meta) of a call."""
    sent = resolve(call.send or {}, values)
    meta = resolve(call.meta, values)
    return cast("dict[str, JsonValue]", sent), cast("dict[str, JsonValue]", meta)


async def fetch(
    upstream: Upstream, read: Read, values: Mapping[str, object], *, error: str | None, what: str
) -> Called | Refusal:
    """The answer of a tool that reads. A refusal where there is no such record or it is another customer's: which of
    both it is cannot be told from it; and where the tool is not what was reviewed. `what` is our word for the record.
    Raises SystemUnavailable."""
    arguments, meta = arguments_of(read, values)
    answer = await upstream.call(read.tool, read.pin, arguments, meta=meta)
    if isinstance(answer, Changed):
        return QUARANTINED
    if not isinstance(answer, Called):
        raise SystemUnavailable(upstream.system, answer.exchange.problem or "transport")
    if answer.rpc is not None:
        raise SystemUnavailable(upstream.system, "unreadable")
    if answer.is_error:
        code = error_of(answer.content, error)
        if any(each.error == code for each in read.missing):
            return _none(read, what)
        raise SystemUnavailable(upstream.system, "refused")
    if read.belongs_to is not None and at(answer.content, read.belongs_to) != look_up(values, ("run", "customer_id")):
        return _none(read, what)
    return answer


def _none(read: Read, what: str) -> Refusal:
    return no_such(what, (name for _, name in names_in(read.send or {}, "")))
