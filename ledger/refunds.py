"""What became of refunds, and of which amounts: for whoever keeps the books."""

from collections import Counter
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

import asyncpg
from pydantic import JsonValue

from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Connection, Pool
from ledger.periods import Period
from ledger.queries import load
from ledger.records import CallDetails, details_context
from schemas.codes import Status

_SQL = load("refunds")
_PAGE = 500

Outcome = Status | Literal["reversed"]
"""A call's status, or that its refund was executed and came back."""
Found = Literal["by a look-up", "by sending it again", "by a person", "being looked up", "waiting for a person"]
"""How an outcome that was not known came to be known, or what is being done about it."""


@dataclass(frozen=True, slots=True)
class Refund:
    """One refund as it stands. `amount` in minor units of `currency`, both None where the customer was erased.

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

    def add(self, refund: Refund) -> None:
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

    def add(self, refund: Refund) -> None:
        sums = (
            self.total,
            self.by_agent.setdefault(refund.agent, Sums()),
            self.by_rule.setdefault(refund.rule, Sums()),
        )
        for each in sums:
            each.add(refund)
        if refund.found is not None:
            self.unknown[refund.found, refund.outcome] += 1


class Refunds:
    """Reads refunds; the amounts are in the encrypted part of a call."""

    def __init__(self, pool: Pool, keys: DataKeys) -> None:
        self._pool = pool
        self._keys = keys

    async def report(self, tenant: str | None, period: Period, tools: Collection[str]) -> RefundReport:
        """Of a tenant or (None) of every one, by the tools that refund."""
        report = RefundReport(period)
        async for refund in self._read(tenant, period, list(tools)):
            report.add(refund)
        return report

    async def _read(self, tenant: str | None, period: Period, tools: list[str]) -> AsyncIterator[Refund]:
        after = ""
        async with self._pool.acquire() as connection:
            while True:
                rows = await connection.fetch(_SQL["refunds"], tenant, period.since, period.until, tools, after, _PAGE)
                for row in rows:
                    yield await self._open(connection, row)
                if len(rows) < _PAGE:
                    return
                after = rows[-1]["request_id"]

    async def _open(self, connection: Connection, row: asyncpg.Record) -> Refund:
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
        return Refund(row["agent_id"], row["rule"] or "", outcome, amount, currency, found)


def amount_of(details: CallDetails) -> tuple[int | None, str | None]:
    """Minor units and currency of what was sent, or of what was asked where nothing was; (None, None) without both."""
    said: Mapping[str, JsonValue] = details.effect.target if details.effect else details.call.arguments
    amount, currency = said.get("amount_cents"), said.get("currency")
    if isinstance(amount, int) and not isinstance(amount, bool) and isinstance(currency, str):
        return amount, currency
    return None, None


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
