"""What a payment gateway tells of itself. Nothing in it is believed but that there is something to look at again."""

from collections.abc import Mapping
from datetime import datetime
from typing import Protocol

from schemas.base import Model


class Notice(Model):
    """What a genuine webhook is about. Each name is None where the gateway did not give it.

    `status` is what the event says of the refund. It is good for seeing that nothing is new, and for nothing else.
    """

    event_id: str
    operation_id: str | None = None
    refund_id: str | None = None
    payment_id: str | None = None
    status: str | None = None


class NotGenuineError(Exception):
    """The signature is missing, wrong, or older than its tolerance. Its only argument is our own word for which."""


class WebhookReader(Protocol):
    """Tells a gateway's own webhooks from anybody else's."""

    async def read(self, headers: Mapping[str, str], body: bytes, now: datetime) -> Notice | None:
        """The notice; None for a genuine event that is about no refund. Header names are in lower case.

        Raises NotGenuineError.
        """
        ...
