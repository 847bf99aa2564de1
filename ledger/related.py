"""What else there is of a customer, or like an approval: for whoever decides it."""

from collections import Counter
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import asyncpg

from ledger.cards import open_card
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Pool
from ledger.keys import DataKey
from ledger.queries import load
from ledger.records import CallDetails, details_context
from schemas.codes import Status
from schemas.decisions import Approval

_SQL = load("related")

PERIOD = timedelta(days=90)
"""What earlier refunds are added up over."""
LATEST = 5
"""How many are shown one by one."""
MOST = 100
"""How many are counted at most; beyond that it is enough to know that there are more."""


@dataclass(frozen=True, slots=True)
class Earlier:
    """One call of a customer. `amount` in minor units of `currency`."""

    request_id: str
    approval_id: str | None
    at: datetime
    status: Status
    amount: int | None
    currency: str | None
    order_id: str | None
    reason_code: str | None


@dataclass(frozen=True, slots=True)
class EarlierCalls:
    """Newest first the `latest`; and over `PERIOD` how many ended in which status, with minor units by currency of
    those that were executed. `more`: there are more than were looked at, so these are at least so many."""

    latest: tuple[Earlier, ...] = ()
    count: Counter[Status] = field(default_factory=Counter[Status])
    executed: Counter[str] = field(default_factory=Counter[str])
    more: bool = False


@dataclass(frozen=True, slots=True)
class Alike:
    """An approval that waits as well. `of_customer`: for the same customer; else of the same agent and tool."""

    approval: Approval
    of_customer: bool


@dataclass(frozen=True, slots=True)
class AllAlike:
    """The first of them, those of the customer before the others, and how many there are; `more`: at least."""

    first: tuple[Alike, ...] = ()
    total: int = 0
    more: bool = False


class Related:
    """Reads what stands beside an approval, of its own tenant, in one query each."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def earlier(self, approval: Approval, tools: list[str], now: datetime) -> EarlierCalls:
        """The customer's other calls of these tools."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                _SQL["calls_of_customer"],
                approval.tenant,
                approval.customer_id,
                tools,
                approval.request_id,
                MOST + 1,
            )
            keys = await self._keys.left(connection, {row["key_id"] for row in rows})
        opened = [(row, key) for row in rows[:MOST] if (key := keys.get(row["key_id"])) is not None]
        found = [_earlier(row, key.open(row["details"], _context(row))) for row, key in opened]
        recent = [each for each in found if each.at > now - PERIOD]
        executed = Counter[str]()
        for each in recent:
            if each.status == "executed" and each.amount is not None and each.currency is not None:
                executed[each.currency] += each.amount
        return EarlierCalls(
            tuple(found[:LATEST]),
            Counter(each.status for each in recent),
            executed,
            more=len(rows) > MOST and rows[MOST]["created_at"] > now - PERIOD,
        )

    async def alike(self, approval: Approval) -> AllAlike:
        """What waits beside it for the same customer, or was asked by the same agent with the same tool."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(
                _SQL["alike"],
                approval.tenant,
                approval.approval_id,
                approval.customer_id,
                approval.agent_id,
                approval.tool,
                MOST + 1,
                LATEST,
            )
            try:
                keys = await self._keys.of_ids(connection, {row["key_id"] for row in rows})
            except KeyDestroyed:
                # Another customer was erased; of the page of this one that takes nothing away but the list.
                keys = dict[str, DataKey]()
        first = tuple(Alike(open_card(row, keys[row["key_id"]]), row["of_customer"]) for row in rows if keys)
        total = rows[0]["total"] if rows else 0
        return AllAlike(first, min(total, MOST), more=total > MOST)


def _context(row: asyncpg.Record) -> bytes:
    return details_context(row["tenant"], row["request_id"])


def _earlier(row: asyncpg.Record, details: bytes) -> Earlier:
    arguments = CallDetails.model_validate_json(details).call.arguments
    amount = arguments.get("amount_cents")
    texts = {name: arguments.get(name) for name in ("currency", "order_id", "reason_code")}
    return Earlier(
        request_id=row["request_id"],
        approval_id=row["approval_id"],
        at=row["created_at"],
        status=row["status"],
        amount=amount if isinstance(amount, int) else None,
        **{name: value if isinstance(value, str) else None for name, value in texts.items()},
    )
