"""Events of every version that was ever written, read as the current ones.

What is stored is never rewritten. A changed shape is a new version of its type, and beside it here one pure function
that makes the body of the version before into one of the next: what the old one did not say, the new one has as None
or empty, and nothing that reads events knows of old versions.
"""

import json
from collections.abc import Callable, Mapping
from typing import get_args

from pydantic import JsonValue

from schemas.base import EventBody
from schemas.events import EVENT, Event

Body = dict[str, JsonValue]


def _unsaid(**fields: JsonValue) -> Callable[[Body], Body]:
    """Of a version that has these fields more, which nobody wrote down before."""
    return lambda body: {**body, **fields}


UPCASTS: dict[tuple[str, int], Callable[[Body], Body]] = {
    # Its call has no trace then, which is the model's to say.
    ("call.proposed", 1): _unsaid(),
    ("call.decided", 1): _unsaid(uses={}),
    ("call.decided", 2): _unsaid(usage=None, claim=None, run=None, shadow=None),
    ("approval.requested", 1): _unsaid(approval=None),
    ("approval.granted", 1): _unsaid(through=None, proof=None),
    ("approval.supported", 1): _unsaid(through=None, proof=None),
    ("approval.denied", 1): _unsaid(through=None, proof=None),
    ("call.amended", 1): _unsaid(amount=None, decision=None),
    ("effect.confirmed", 1): _unsaid(remote_at=None),
    ("effect.unknown", 1): _unsaid(operation=None),
    ("effect.inspected", 1): _unsaid(result=None, explanation=None, recheck_at=None),
    ("policy.published", 1): _unsaid(number=None, digest=None, people=[], proposal_id=None),
    ("call.settled", 1): _unsaid(recheck_at=None),
}
"""By (type, version): its body as one of the version after it."""

MODELS: dict[str, type[EventBody]] = {
    model.model_fields["type"].default: model for model in get_args(get_args(Event)[0])
}
"""The current version of every type."""


class UnknownEvent(Exception):
    """A type or version that this release does not know: a newer one wrote it. Its only argument says which."""


def read_event(type_: str, version: int, body: bytes) -> Event:
    """The event with this body (JSON), as the current version of its type says it. Raises UnknownEvent, and pydantic's
    ValidationError for what is no such event."""
    model = MODELS.get(type_)
    if model is None or version > model.version:
        raise UnknownEvent(f"{type_} of version {version}")
    if version < model.version:
        body = json.dumps(upcast(type_, version, json.loads(body), UPCASTS)).encode()
    return EVENT.validate_json(body)


def upcast(type_: str, version: int, body: Body, upcasts: Mapping[tuple[str, int], Callable[[Body], Body]]) -> Body:
    """The body after every step that there is for it, one version at a time."""
    while (step := upcasts.get((type_, version))) is not None:
        body, version = step(body), version + 1
    return body
