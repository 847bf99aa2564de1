"""Arguments as models write them."""

import json
from collections.abc import Mapping
from typing import Any, cast

from counterseal_client.models import KEY, Reply

UNREADABLE = Reply(
    ok=False,
    status="refused",
    request_id="",
    code="INVALID_INPUT",
    message="The arguments are no JSON object; nothing was sent. Correct them and call the tool again.",
    action="repair_input",
    retryable=False,
)
"""What a model is told of arguments that cannot be read. No service has seen the call."""


def arguments_of(written: object) -> dict[str, Any] | None:
    """The arguments in a JSON text or an object, without a key that the model was never asked for; None where it is
    neither."""
    try:
        found = json.loads(written or "{}") if isinstance(written, str) else written
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, Mapping):
        return None
    return {name: each for name, each in cast("Mapping[str, Any]", found).items() if name != KEY}
