"""What became of refunds, and of which amounts: for whoever keeps the books."""

from collections import Counter
from collections.abc import AsyncIterator, Collection
from dataclasses import dataclass, field
from itertools import groupby
from typing import Literal

import asyncpg

from ledger.bookings import CLOCKS, TOLD_BY, Line, Refund, RefundCall, Told, amount_in, refund_of
from ledger.chain import EventRow, open_event
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Connection, Pool
from ledger.periods import Period
from ledger.queries import load
from ledger.records import CallDetails, details_context
from schemas.codes import Status
from schemas.events import Event

_SQL = load("refunds")
_PAGE = 500

Outcome = Status | Literal["reversed"]
"""A call's status, or that its refund was executed and came back."""
Found = Literal["by a look-up", "by sending it again", "by a person", "being looked up", "waiting for a person"]
"""How an outcome that was not known came to be known, or what is being done about it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One refund that was asked for, as it stands. `amount` in minor units of `currency`, both None where the customer
    was erased.

    `found` is None where the outcome was always known.
    """

    agent: str
    rule: str
    outcome: Outcome
    amount: int | None
    currency: str | None
    found: Found | None


@dataclass(slots=True)
class Sums:
    """How many refunds ended how, and minor units by (currency, outcome). `unreadable`: those without an amount."""

    count: Counter[Outcome] = field(default_factory=Counter[Outcome])
    amounts: Counter[tuple[str, Outcome]] = field(default_factory=Counter[tuple[str, Outcome]])
    unreadable: int = 0

    @property
    def asked(self) -> int:
        return self.count.total()

    @property
    def currencies(self) -> list[str]:
        return sorted({currency for currency, _ in self.amounts})

    def add(self, refund: Asked) -> None:
        self.count[refund.outcome] += 1
        if refund.amount is None or refund.currency is None:
            self.unreadable += 1
        else:
            self.amounts[refund.currency, refund.outcome] += refund.amount


@dataclass(slots=True)
class RefundReport:
    """The refunds that were asked for in `period`, each counted once as it stands now.

    `unknown`: of those whose outcome was not known for a while, how many by how it was found and what it is.
    """

    period: Period
    total: Sums = field(default_factory=Sums)
    by_agent: dict[str, Sums] = field(default_factory=dict[str, Sums])
    by_rule: dict[str, Sums] = field(default_factory=dict[str, Sums])
    unknown: Counter[tuple[Found, Outcome]] = field(default_factory=Counter[tuple[Found, Outcome]])

    def add(self, refund: Asked) -> None:
        sums = (
            self.total,
            self.by_agent.setdefault(refund.agent, Sums()),
            self.by_rule.setdefault(refund.rule, Sums()),
        )
        for each in sums:
            each.add(refund)
        if refund.found is not None:
            self.unknown[refund.found, refund.outcome] += 1


@dataclass(slots=True)
class Books:
    """What was booked in `period`, in the order of time, and what was sent before its end and is not known yet."""

    period: Period
    lines: list[Line] = field(default_factory=list[Line])
    open: list[Refund] = field(default_factory=list[Refund])

    def add(self, refund: Refund) -> None:
        self.lines += [
            Line(refund, each) for each in refund.bookings if self.period.since <= each.at < self.period.until
        ]
        if refund.is_open and refund.sent_at is not None and refund.sent_at < self.period.until:
            self.open.append(refund)


class Refunds:
    """Reads refunds; the amounts are in the encrypted parts of calls and events."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def report(self, tenant: str | None, period: Period, tools: Collection[str]) -> RefundReport:
        """Of a tenant or (None) of every one, by the tools that refund."""
        report = RefundReport(period)
        async for refund in self._read(tenant, period, list(tools)):
            report.add(refund)
        return report

    async def books(self, tenant: str | None, period: Period, tools: Collection[str]) -> Books:
        """The bookings of a tenant or (None) of every one, as of one moment, by the tools that refund."""
        books = Books(period)
        async for refund in self.told(tenant, period, tools):
            books.add(refund)
        books.lines.sort(key=lambda line: (line.booking.at, line.refund.call.request_id))
        books.open.sort(key=lambda refund: (refund.sent_at or period.until, refund.call.request_id))
        return books

    async def told(self, tenant: str | None, period: Period, tools: Collection[str]) -> AsyncIterator[Refund]:
        """Every refund that was sent and may be booked in the period or open at its end, told from its events."""
        after, span = "", (period.since - CLOCKS, period.until + CLOCKS)
        async with (
            self._pool.acquire() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            while True:
                rows = await connection.fetch(_SQL["sent"], tenant, *span, list(tools), after, _PAGE)
                for refund in await self._tell(connection, rows):
                    yield refund
                if len(rows) < _PAGE:
                    return
                after = rows[-1]["request_id"]

    async def by_operations(self, operation_ids: Collection[str]) -> dict[str, Refund]:
        """The refunds, of any tenant, that have these operation ids."""
        async with self._pool.acquire() as connection:
            rows = await connection.fetch(_SQL["of_operations"], list(operation_ids))
            found = {each.call.request_id: each for each in await self._tell(connection, rows)}
            return {row["operation_id"]: found[row["request_id"]] for row in rows}

    async def _tell(self, connection: Connection, rows: list[asyncpg.Record]) -> list[Refund]:
        request_ids = [row["request_id"] for row in rows]
        told: dict[str, list[Told]] = {}
        events = await connection.fetch(_SQL["refund_events"], request_ids, list(TOLD_BY))
        for request_id, its in groupby(events, key=lambda event: event["request_id"]):
            told[request_id] = [Told(row["type"], row["at"], await self._event(connection, row)) for row in its]
        calls = [
            RefundCall(
                row["request_id"],
                row["tenant"],
                row["tool"],
                row["agent_id"],
                row["rule"] or "",
                row["policy_version"] or "",
                row["status"],
                row["operation_id"],
                row["remote_id"],
            )
            for row in rows
        ]
        return [refund_of(call, told.get(call.request_id, [])) for call in calls]

    async def _event(self, connection: Connection, row: asyncpg.Record) -> Event | None:
        """None for what was erased, or kept no longer."""
        stored = EventRow.of(row)
        if stored.body is None:
            return None
        try:
            return open_event(stored, await self._keys.by_id(connection, stored.key_id))
        except KeyDestroyed:
            return None

    async def _read(self, tenant: str | None, period: Period, tools: list[str]) -> AsyncIterator[Asked]:
        after = ""
        async with self._pool.acquire() as connection:
            while True:
                rows = await connection.fetch(_SQL["refunds"], tenant, period.since, period.until, tools, after, _PAGE)
                for row in rows:
                    yield await self._open(connection, row)
                if len(rows) < _PAGE:
                    return
                after = rows[-1]["request_id"]

    async def _open(self, connection: Connection, row: asyncpg.Record) -> Asked:
        try:
            key = await self._keys.by_id(connection, row["key_id"])
        except KeyDestroyed:
            amount = currency = None
        else:
            sealed = key.open(row["details"], details_context(row["tenant"], row["request_id"]))
            amount, currency = amount_of(CallDetails.model_validate_json(sealed))
        outcome = outcome_of(row["status"], was_reversed=row["was_reversed"])
        found = None
        if row["was_unknown"]:
            found = found_by(
                row["status"],
                in_review=row["review"] is not None,
                by_person=row["by_person"],
                sent_again=row["sent_again"],
            )
        return Asked(row["agent_id"], row["rule"] or "", outcome, amount, currency, found)


def amount_of(details: CallDetails) -> tuple[int | None, str | None]:
    """Minor units and currency of what was sent, or of what was asked where nothing was; (None, None) without both."""
    return amount_in(details.effect.target if details.effect else details.call.arguments)


def outcome_of(status: Status, *, was_reversed: bool) -> Outcome:
    """A refund that came back is no failed one: its money was away. One that was found executed after that, is."""
    return "reversed" if was_reversed and status != "executed" else status


def found_by(status: Status, *, in_review: bool, by_person: bool, sent_again: bool) -> Found:
    """How the outcome of a refund that was not known was found."""
    if status == "outcome_unknown":
        return "waiting for a person" if in_review else "being looked up"
    if by_person:
        return "by a person"
    return "by sending it again" if sent_again else "by a look-up"
