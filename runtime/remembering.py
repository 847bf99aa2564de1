"""The hashes of events in Temporal's histories."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

from google.protobuf.message import Message
from temporalio.api.common.v1 import Payload
from temporalio.client import WorkflowHistory
from temporalio.converter import DataConverter

from ledger.histories import Remembered


async def remembered(histories: AsyncIterator[WorkflowHistory], converter: DataConverter) -> list[Remembered]:
    """What activities told their workflows of where their calls' events end."""
    found: list[Remembered] = []
    async for history in histories:
        for event in history.events:
            payloads = list(_payloads(event))
            if converter.payload_codec is not None and payloads:
                payloads = await converter.payload_codec.decode(payloads)
            found += [known for each in payloads if (known := _head(each, history.workflow_id)) is not None]
    return found


def _payloads(message: Message) -> Iterator[Payload]:
    """Every payload in a message, wherever it is."""
    if isinstance(message, Payload):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several: Any = value
        if field.message_type.GetOptions().map_entry:
            values = [each for each in several.values() if isinstance(each, Message)]
        else:
            values = list(several) if field.is_repeated else [several]
        for each in values:
            yield from _payloads(each)


def _head(payload: Payload, workflow_id: str) -> Remembered | None:
    """Of a `Progress` that has one; None for anything else."""
    if b'"head"' not in payload.data:
        return None
    try:
        said = json.loads(payload.data)
        n, _, hash_ = said["head"].partition(":")
        return Remembered(said["request_id"], int(n), hash_, workflow_id)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
