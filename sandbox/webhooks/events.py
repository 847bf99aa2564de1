"""Stripe's event objects (https://docs.stripe.com/api/events/object), recorded beside the change that they tell of.

Recorded in the transaction of the change, so that there is an event for what happened and for nothing else.
"""

import json
from dataclasses import dataclass

from sandbox.state import State
from sandbox.stripe_shapes import Shape, new_id
from sandbox.webhooks import queue

# The first version with `refund.*` events for every refund:
# https://docs.stripe.com/changelog/acacia/2024-10-28/refund-webhook-update
API_VERSION = "2024-10-28.acacia"


@dataclass(frozen=True)
class Cause:
    """The API request that something happened by; nothing of it is known where no request was."""

    request_id: str | None = None
    key: str | None = None


AUTOMATIC = Cause()


def refund_created(state: State, refund: Shape, charge_before: Shape, charge: Shape, cause: Cause) -> None:
    record(state, "refund.created", refund, None, cause)
    record(state, "charge.refunded", charge, _changed(charge_before, charge), cause)


def refund_changed(state: State, before: Shape, refund: Shape) -> None:
    """`charge.refund.updated` is the old name, which Stripe goes on sending for most payment methods."""
    changed = _changed(before, refund)
    if not changed:
        return
    if refund["status"] == "failed":
        record(state, "refund.failed", refund)
    record(state, "refund.updated", refund, changed)
    record(state, "charge.refund.updated", refund, changed)


def record(
    state: State, type_: str, shape: Shape, previous: Shape | None = None, cause: Cause = AUTOMATIC
) -> str | None:
    """Keeps the event and queues it for every endpoint; gives its id, or None where no endpoint wants any.

    Call in a transaction. `previous` are the former values of what has changed.
    """
    endpoints = len(queue.endpoint_ids(state))
    if not endpoints:
        return None
    event_id = keep(state, type_, shape, previous, cause, endpoints)
    queue.announce(state, event_id)
    return event_id


def keep(state: State, type_: str, shape: Shape, previous: Shape | None, cause: Cause, endpoints: int) -> str:
    """Keeps the event, queued for nobody yet; gives its id."""
    event = _event(type_, shape, previous, cause, state.now_us() // 1_000_000, endpoints)
    queue.add_event(state, event["id"], type_, shape.get("id"), json.dumps(event, separators=(",", ":")).encode())
    return event["id"]


def _event(type_: str, shape: Shape, previous: Shape | None, cause: Cause, created: int, endpoints: int) -> Shape:
    data: Shape = {"object": shape}
    if previous is not None:
        data["previous_attributes"] = previous
    return {
        "id": new_id("evt"),
        "object": "event",
        "api_version": API_VERSION,
        "created": created,
        "data": data,
        "livemode": False,
        "pending_webhooks": endpoints,
        "request": {"id": cause.request_id, "idempotency_key": cause.key},
        "type": type_,
    }


def _changed(before: Shape, after: Shape) -> Shape:
    """The former values of what is different now; null for what was not there."""
    return {name: before.get(name) for name, value in after.items() if before.get(name) != value}
