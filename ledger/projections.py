"""The rows of the projections, with their encrypted parts open: as they should be, as they are, and what differs. Pure,
save that a body is opened."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import asyncpg
from cryptography.exceptions import InvalidTag
from pydantic import ValidationError

from ledger.cards import card_context, order_indexes, order_of, plain_columns
from ledger.data_keys import DataKeys
from ledger.decision_bodies import DecisionBody, body_of, decision_columns, decision_context
from ledger.folding import Projected
from ledger.keys import DataKey
from ledger.records import CallDetails, details_context
from schemas.base import Model
from schemas.decisions import Approval
from schemas.subjects import counted_for

Table = Literal["calls", "approvals", "decisions", "views", "uses"]
Row = dict[str, Any]
Rows = dict[Table, dict[tuple[str, ...], Row]]
"""By table and primary key."""

TABLES: tuple[Table, ...] = ("calls", "approvals", "decisions", "views", "uses")
"""Each after what it refers to."""
KEYS: dict[Table, tuple[str, ...]] = {
    "calls": ("request_id",),
    "approvals": ("approval_id",),
    "decisions": ("decision_id",),
    "views": ("approval_id", "viewer"),
    "uses": ("request_id", "subject"),
}
UNREADABLE = object()
"""What stands for a body that does not open, or holds something else: equal to nothing that should be there."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """The encrypted column of a table: what it holds, and what it is bound to."""

    column: str
    model: type[Model]
    context: Callable[[Row], bytes]


SEALED: dict[Table, Sealed] = {
    "calls": Sealed("details", CallDetails, lambda row: details_context(row["tenant"], row["request_id"])),
    "approvals": Sealed("card", Approval, lambda row: card_context(row["tenant"], row["approval_id"])),
    "decisions": Sealed("body", DecisionBody, lambda row: decision_context(row["tenant"], row["decision_id"])),
}


@dataclass(frozen=True, slots=True)
class Difference:
    """Where a row is not what the events make it: a column, or with None the whole row, which is `missing` or which no
    event made."""

    request_id: str
    table: Table
    column: str | None
    missing: bool = False

    def __str__(self) -> str:
        if self.column is not None:
            return f"{self.request_id}: {self.table}.{self.column} is not what the events say"
        said = "a row is missing" if self.missing else "no event made a row that is there"
        return f"{self.request_id}: {self.table}: {said}"


class Indexes(tuple[str, ...]):
    """What an order may be found by: under the current master key, and under former ones."""

    __slots__ = ()


def as_they_should_be(projected: Projected, keys: DataKeys) -> Rows:
    """The rows of one call, each with its columns in the order in which statements take them. In the place of a sealed
    column stands what it holds."""
    record = projected.record
    return {
        "calls": {(record.request_id,): _call(projected)},
        "approvals": {(each,): _approval(projected, each, keys) for each in projected.approvals},
        "decisions": {
            (event.decision_id,): {
                **decision_columns(event, record.tenant, record.request_id, at),
                "body": body_of(event),
            }
            for event, at in projected.decisions
        },
        "views": {
            (approval_id, viewer): {"approval_id": approval_id, "viewer": viewer, "tenant": record.tenant, "at": at}
            for (approval_id, viewer), at in projected.views.items()
        },
        "uses": {
            (record.request_id, subject): {
                "request_id": record.request_id,
                "subject": subject,
                "tenant": record.tenant,
                "tool": counted_for(subject, record.tool),
                "amount": use.amount,
                "at": use.at,
                "changed_at": use.changed_at,
                "state": use.state,
            }
            for subject, use in (projected.uses | projected.trips).items()
        },
    }


def _call(projected: Projected) -> Row:
    record = projected.record
    binding = record.details.call.binding
    return {
        "request_id": record.request_id,
        "tenant": record.tenant,
        "run_id": binding.run_id,
        "agent_id": record.agent_id,
        "customer_id": binding.customer_id,
        "tool": record.tool,
        "workflow_id": record.workflow_id,
        "arguments_digest": record.arguments_digest,
        "status": record.status,
        "code": record.code,
        "verdict": record.verdict,
        "rule": record.rule,
        "policy_version": record.policy_version,
        "approval_id": record.approval_id,
        "operation_id": record.operation_id,
        "intended_at": record.intended_at,
        "remote_id": record.remote_id,
        "review": record.review,
        "recheck_at": record.recheck_at,
        "trace_id": record.details.call.trace_id,
        "created_at": record.created_at,
        "updated_at": record.updated_at,
        "n": record.head.n,
        "hash": record.head.hash,
        "erased_at": None,
        "details": record.details,
    }


def _approval(projected: Projected, approval_id: str, keys: DataKeys) -> Row:
    asked = projected.approvals[approval_id]
    order = order_of(asked.approval)
    found_by = None if order is None else Indexes(order_indexes(keys, asked.approval.tenant, order))
    return {
        **plain_columns(asked.approval, keys),
        "expires_at": asked.expires_at,
        "order_index": found_by,
        "status": asked.status,
        "closed_at": asked.closed_at,
        "given": projected.given(approval_id),
        "erased_at": None,
        "card": asked.approval,
    }


def as_they_are(table: Table, found: Iterable[asyncpg.Record], key_of: Callable[[str], DataKey | None]) -> list[Row]:
    """Rows of a table as the database has them. `key_of` gives the key of an id; None where there is none."""
    rows: list[Row] = []
    for each in found:
        row = dict(each)
        if (sealed := SEALED.get(table)) is not None:
            row[sealed.column] = _opened(sealed, row, key_of(row.pop("key_id")))
        rows.append(row)
    return rows


def _opened(sealed: Sealed, row: Row, key: DataKey | None) -> Any:
    if key is None:
        return UNREADABLE
    try:
        return sealed.model.model_validate_json(key.open(row[sealed.column], sealed.context(row)))
    except (InvalidTag, ValidationError):
        return UNREADABLE


def differences(request_id: str, should: Rows, are: Rows) -> list[Difference]:
    """Everything in which the rows of a call differ from what they should be."""
    found: list[Difference] = []
    for table in TABLES:
        wanted, there = should.get(table, {}), are.get(table, {})
        found += [Difference(request_id, table, None, missing=True) for _ in wanted.keys() - there.keys()]
        found += [Difference(request_id, table, None) for _ in there.keys() - wanted.keys()]
        for key in sorted(wanted.keys() & there.keys()):
            found += [Difference(request_id, table, column) for column in differing(wanted[key], there[key])]
    return found


def differing(wanted: Row, there: Row) -> list[str]:
    """The columns of a row that are not as they should be, one that nothing says anything of among them."""
    return sorted(
        name
        for name in wanted.keys() | there.keys()
        if name not in wanted or not _is(wanted[name], there.get(name, UNREADABLE))
    )


def _is(wanted: object, there: object) -> bool:
    return there in wanted if isinstance(wanted, Indexes) else there == wanted


def plain_values(table: Table, row: Row) -> list[object]:
    """Of a row as it should be, what its statement takes before the key and the sealed column."""
    sealed = SEALED.get(table)
    return [
        value[0] if isinstance(value, Indexes) else value
        for name, value in row.items()
        if sealed is None or name != sealed.column
    ]
