"""The events of one call as commands read them."""

from ledger.chain import EventRow
from ledger.ledger import Ledger


async def event_rows(ledger: Ledger, request_id: str) -> list[EventRow]:
    """The events of a call in order, as they are stored; empty when there are none."""
    return await ledger.calls.rows(request_id)
