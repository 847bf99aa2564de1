"""How `counterseal report refunds` writes what was booked: a table for people, JSON and CSV for programs."""

import csv
import io
from collections.abc import Sequence
from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo

from rich.table import Table
from rich.text import Text

from api.pages.text import money, words
from ledger.bookings import ERASED, By, Line, Refund, Sum, sums, value_of
from ledger.refunds import Books
from runtime.cli.output import console, plain, table

# What a table is made for when nobody says by what.
_USUAL: tuple[By, ...] = ("reason_code", "tool", "agent", "approver")
_LINE = (
    *("day", "at", "time_of", "kind", "amount_minor", "currency", "reason_code", "tool", "agent", "approver", "rule"),
    *("policy_version", "tenant", "request_id", "operation_id", "refund_id"),
)
_SUM = ("refunds", "refunded_minor", "reversals", "reversed_minor", "net_minor")
# What spreadsheets take for the beginning of a formula (https://owasp.org/www-community/attacks/CSV_Injection), the
# full-width forms too.
_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")


def as_json(books: Books, by: Sequence[By], zone: ZoneInfo) -> dict[str, object]:
    """All of it as plain values; amounts are integers of minor units."""
    return {
        "zone": zone.key,
        "totals": [{"currency": currency, **_sum(each)} for (_, currency), each in sums(books.lines, (), zone).items()],
        "by": list(by),
        "groups": _groups(books, by, zone),
        "lines": [line_of(each, zone) for each in books.lines],
        "unsettled": [_open(each) for each in books.open],
    }


def as_csv(books: Books, by: Sequence[By], zone: ZoneInfo) -> str:
    """RFC 4180, with a header: a record per booking, or, with `by`, per group and currency."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    columns = (*[each for each in by if each != "currency"], "currency", *_SUM) if by else _LINE
    records = _groups(books, by, zone) if by else [line_of(each, zone) for each in books.lines]
    writer.writerow(columns)
    writer.writerows([_cell(record[column]) for column in columns] for record in records)
    return written.getvalue()


def line_of(line: Line, zone: tzinfo) -> dict[str, object]:
    """A booking as plain values; None for what was erased or is not there."""
    refund, booking = line.refund, line.booking
    return {
        "day": value_of(line, "day", zone),
        "at": _time(booking.at),
        "time_of": booking.time_of,
        "kind": booking.kind,
        "amount_minor": booking.amount,
        "currency": booking.currency,
        "reason_code": refund.reason_code,
        "tool": refund.call.tool,
        "agent": refund.call.agent_id,
        "approver": " + ".join(refund.approvers) or None,
        "rule": refund.call.rule,
        "policy_version": refund.call.policy_version,
        "tenant": refund.call.tenant,
        "request_id": refund.call.request_id,
        "operation_id": refund.operation_id,
        "refund_id": refund.refund_id,
    }


def show(books: Books, by: Sequence[By], zone: ZoneInfo) -> None:
    """Print what was booked by currency, and by each of the usual dimensions, or by what was asked for."""
    terminal, period = console(), books.period
    terminal.print(Text(f"Booked from {_local(period.since, zone)} until before {_local(period.until, zone)}"))
    if not books.lines:
        terminal.print(Text("No refund was booked in that time."))
    else:
        terminal.print(_table(books, (), zone))
        wanted: Sequence[Sequence[By]] = [by] if by else [[each] for each in _USUAL]
        for dimensions in wanted:
            terminal.print(_table(books, dimensions, zone))
    if books.open:
        _show_open(books.open)


def _table(books: Books, by: Sequence[By], zone: tzinfo) -> Table:
    headings = [words(each).capitalize() for each in by if each != "currency"]
    shown = table(*headings, "Currency", "Refunds", "Refunded", "Reversals", "Reversed", "Net")
    for (key, currency), each in sums(books.lines, by, zone).items():
        names = [plain(value) for dimension, value in zip(by, key, strict=True) if dimension != "currency"]
        amounts = [_amount(each.refunded, currency), _amount(each.reversed, currency), _amount(each.net, currency)]
        shown.add_row(
            *names, currency, str(each.refunds), amounts[0], str(each.reversals) if each.reversals else "", *amounts[1:]
        )
    return shown


def _show_open(refunds: Sequence[Refund]) -> None:
    shown = table("Not booked: not known yet", "It is", "Sent", "Amount", title="Sent, and not known")
    for each in refunds:
        known = each.amount is not None and each.currency is not None
        amount = money(each.amount, each.currency) if known else ERASED  # pyright: ignore[reportArgumentType]
        shown.add_row(each.call.request_id, _STATES[each.standing], _time(each.sent_at) or "", amount)
    console().print(shown)


_STATES = {"sent": "being sent", "unknown": "being looked up", "in_review": "waiting for a person"}


def _groups(books: Books, by: Sequence[By], zone: tzinfo) -> list[dict[str, object]]:
    if not by:
        return []
    return [
        {**dict(zip(by, key, strict=True)), "currency": currency, **_sum(each)}
        for (key, currency), each in sums(books.lines, by, zone).items()
    ]


def _sum(each: Sum) -> dict[str, int]:
    return dict(zip(_SUM, (each.refunds, each.refunded, each.reversals, each.reversed, each.net), strict=True))


def _open(refund: Refund) -> dict[str, object]:
    return {
        "request_id": refund.call.request_id,
        "tenant": refund.call.tenant,
        "state": refund.standing,
        "sent_at": _time(refund.sent_at),
        "amount_minor": refund.amount,
        "currency": refund.currency,
        "operation_id": refund.operation_id,
    }


def _amount(amount: int, currency: str) -> str:
    return "" if currency == ERASED or not amount else money(amount, currency)


def _cell(value: object) -> object:
    """Numbers as they are; of text nothing that a spreadsheet runs."""
    if not isinstance(value, str):
        return "" if value is None else value
    return f"'{value}" if value.lstrip()[:1] in _FORMULA or value[:1] in _FORMULA else value


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _local(at: datetime, zone: ZoneInfo) -> str:
    return f"{at.astimezone(zone).isoformat(' ', 'seconds')} ({zone.key})"
