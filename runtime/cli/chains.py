"""Whether the chain of one call's events holds."""

from collections.abc import Sequence

from ledger.chain import GENESIS, EventRow, Head, event_hash
from ledger.ledger import Ledger
from ledger.queries import load

_EVENTS_OF = load("calls")["events_of"]


async def event_rows(ledger: Ledger, request_id: str) -> list[EventRow]:
    """The events of a call in order, as they are stored; empty when there are none."""
    found = await ledger.system.fetch(_EVENTS_OF, request_id)
    return [EventRow(**{name: row[name] for name in EventRow.__slots__}) for row in found]


def break_in(rows: Sequence[EventRow], head: Head) -> str | None:
    """Pure. The first place where the chain breaks, in words; None when it holds from first event to the call's head.

    `rows` are in order. This needs no key: the hashes cover the ciphertext.
    """
    expected = Head(0, GENESIS)
    for row in rows:
        if row.n != expected.n + 1:
            return f"event {expected.n + 1} is missing"
        if row.previous != expected.hash:
            return f"event {row.n} does not follow event {expected.n}"
        if event_hash(row) != row.hash:
            return f"event {row.n} was altered"
        expected = Head(row.n, row.hash)
    if expected != head:
        return f"the call ends at event {head.n}, its events at {expected.n}"
    return None
