"""When refunds are booked: a fold over the events of their calls, and the days that they fall on."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Literal

import pytest

from ledger.bookings import ERASED, Booking, By, Line, Refund, RefundCall, Told, refund_of, sums, value_of
from ledger.periods import half_open, zone_named
from schemas.codes import Code
from schemas.effects import Effect, Exchange
from schemas.events import (
    ApprovalGranted,
    ApprovalSupported,
    EffectConfirmed,
    EffectFailed,
    EffectIntended,
    EffectReversed,
    EffectUnknown,
    Event,
    ReviewConcluded,
    ReviewRequested,
)

CALL = RefundCall("act_1", "acme", "issue_refund", "support-bot", "over_threshold", "p@1", "executed")
T0 = datetime(2026, 11, 29, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
GATEWAY = T0 + timedelta(seconds=3)
EXCHANGE = Exchange(system="payments", method="POST", path_template="/v1/refunds", reached="connected", elapsed_ms=1)
EFFECT = Effect(
    request_id="act_1",
    tool="issue_refund",
    operation_id="op_1",
    gateway_key="key_1",
    target={"payment_id": "pay_1", "amount_cents": 4_999, "currency": "USD", "reason_code": "damaged"},
    intended_at=T0,
)
SENT = EffectIntended(effect=EFFECT, policy_version="p@1", facts={})
DONE = EffectConfirmed(operation_id="op_1", remote_id="re_1", result={}, exchange=EXCHANGE, remote_at=GATEWAY)
LOST = EffectUnknown(operation_id="op_1", exchange=None)
FAILED = EffectFailed(operation_id="op_1", code=Code.REMOTE_REFUSED, exchange=EXCHANGE)
BACK = EffectReversed(operation_id="op_1", remote_id="re_1", exchange=EXCHANGE)
ASKED = ReviewRequested(operation_id="op_1", because="absent")


def concluded(*, happened: bool) -> ReviewConcluded:
    remote_id = "re_9" if happened else None
    return ReviewConcluded(operation_id="op_1", operator="olga", happened=happened, remote_id=remote_id, evidence="…")


def tell(*events: Event, call: RefundCall = CALL) -> Refund:
    """An event a minute from T0 on."""
    return refund_of(call, [Told(event.type, T0 + n * MINUTE, event) for n, event in enumerate(events)])


def booked(refund: Refund) -> list[tuple[str, int | None, datetime, str]]:
    return [(each.kind, each.amount, each.at, each.time_of) for each in refund.bookings]


CASES: dict[str, tuple[Sequence[Event], str, list[tuple[str, int | None, datetime, str]]]] = {
    "sent": ([SENT], "sent", []),
    "confirmed": ([SENT, DONE], "stands", [("refund", 4_999, GATEWAY, "gateway")]),
    "confirmed before gateways' times were kept": (
        [SENT, DONE.model_copy(update={"remote_at": None})],
        "stands",
        [("refund", 4_999, T0 + MINUTE, "ledger")],
    ),
    "confirmed at a time that cannot be": (
        [SENT, DONE.model_copy(update={"remote_at": T0 - timedelta(days=2)})],
        "stands",
        [("refund", 4_999, T0 + MINUTE, "ledger")],
    ),
    "lost": ([SENT, LOST], "unknown", []),
    "a person's to settle": ([SENT, LOST, ASKED], "in_review", []),
    "lost, sent again and found": ([SENT, LOST, SENT, DONE], "stands", [("refund", 4_999, GATEWAY, "gateway")]),
    "not done": ([SENT, FAILED], "failed", []),
    "a person found it": (
        [SENT, LOST, ASKED, concluded(happened=True)],
        "stands",
        [("refund", 4_999, T0 + 3 * MINUTE, "ledger")],
    ),
    "a person found it, and then the gateway says so": (
        [SENT, LOST, ASKED, concluded(happened=True), DONE],
        "stands",
        [("refund", 4_999, T0 + 3 * MINUTE, "ledger")],
    ),
    "a person found that it was not": ([SENT, LOST, ASKED, concluded(happened=False)], "failed", []),
    "it happened after all": (
        [SENT, LOST, ASKED, concluded(happened=False), DONE],
        "stands",
        [("refund", 4_999, GATEWAY, "gateway")],
    ),
    "reversed": (
        [SENT, DONE, BACK],
        "reversed",
        [("refund", 4_999, GATEWAY, "gateway"), ("reversal", -4_999, T0 + 2 * MINUTE, "ledger")],
    ),
    "reversed, and went out after all": (
        [SENT, DONE, BACK, DONE],
        "stands",
        [
            ("refund", 4_999, GATEWAY, "gateway"),
            ("reversal", -4_999, T0 + 2 * MINUTE, "ledger"),
            ("refund", 4_999, T0 + 3 * MINUTE, "ledger"),
        ],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_refund_is_booked_once_and_a_reversal_on_its_own_day(case: str) -> None:
    events, standing, lines = CASES[case]
    refund = tell(*events)
    assert (refund.standing, booked(refund)) == (standing, lines)
    assert refund.is_open == (standing in ("sent", "unknown", "in_review"))
    assert (refund.amount, refund.currency, refund.reason_code) == (4_999, "USD", "damaged")
    assert (refund.payment_id, refund.operation_id, refund.sent_at) == ("pay_1", "op_1", T0)


def granted(approver: str, on_behalf_of: str | None = None, *, kind: Literal["last", "first"] = "last") -> Event:
    made = ApprovalGranted if kind == "last" else ApprovalSupported
    return made(
        approval_id="apr_1",
        decision_id="dec_1",
        approver=approver,
        reason="",
        action_digest="…",
        token="…",
        on_behalf_of=on_behalf_of,
    )


def test_the_approvers_are_those_it_was_sent_on() -> None:
    asked = Told("approval.requested", T0, None)
    refund = refund_of(
        CALL,
        [
            asked,
            Told("approval.granted", T0, granted("eve")),
            asked,
            Told("approval.supported", T0, granted("ana", kind="first")),
            Told("approval.granted", T0, granted("ben", "lea")),
            Told("effect.intended", T0, SENT),
        ],
    )
    assert refund.approvers == ("ana", "ben for lea")


def test_what_was_erased_is_booked_without_its_amount() -> None:
    types = ("effect.intended", "effect.confirmed", "effect.reversed")
    refund = refund_of(CALL, [Told(type_, T0 + n * MINUTE, None) for n, type_ in enumerate(types)])
    assert refund.erased
    assert booked(refund) == [("refund", None, T0 + MINUTE, "ledger"), ("reversal", None, T0 + 2 * MINUTE, "ledger")]
    found = sums([Line(refund, each) for each in refund.bookings], ["reason_code", "approver"], UTC)
    ((key, currency), total), *_ = found.items()
    assert (key, currency, total.refunds, total.refunded) == ((ERASED, ERASED), ERASED, 1, 0)


def line(at: str, amount: int = 100, currency: str = "USD", *, approvers: tuple[str, ...] = ()) -> Line:
    kind = "refund" if amount > 0 else "reversal"
    refund = Refund(CALL, approvers=approvers, reason_code="damaged")
    return Line(refund, Booking(datetime.fromisoformat(at), "gateway", kind, amount, currency))


def test_currencies_are_never_added_and_reversals_are_negative() -> None:
    lines = [
        line("2026-11-01T10:00Z", 500),
        line("2026-11-02T10:00Z", -500),
        line("2026-11-02T11:00Z", 70, "JPY"),
    ]
    found = {
        key: (each.refunds, each.refunded, each.reversals, each.reversed, each.net)
        for key, each in sums(lines, (), UTC).items()
    }
    assert found == {((), "JPY"): (1, 70, 0, 0, 70), ((), "USD"): (1, 500, 1, -500, 0)}


def test_what_two_approved_counts_once() -> None:
    lines = [
        line("2026-11-01T10:00Z", approvers=("ana", "ben")),
        line("2026-11-01T10:00Z", approvers=("ana",)),
        line("2026-11-01T10:00Z"),
    ]
    found = sums(lines, ["approver"], UTC)
    assert [key for key, _ in found] == [("(nobody)",), ("ana",), ("ana + ben",)]
    assert sum(each.refunded for each in found.values()) == 300


@pytest.mark.parametrize(
    ("at", "zone", "day", "month"),
    [
        ("2026-10-31T22:59:59Z", "Europe/Berlin", "2026-10-31", "2026-10"),
        ("2026-10-31T23:00:00Z", "Europe/Berlin", "2026-11-01", "2026-11"),
        ("2026-10-24T22:00:00Z", "Europe/Berlin", "2026-10-25", "2026-10"),
        ("2026-11-01T03:59:59Z", "America/New_York", "2026-10-31", "2026-10"),
        ("2026-11-01T00:00:00Z", "UTC", "2026-11-01", "2026-11"),
    ],
)
def test_days_and_months_are_those_of_the_zone(at: str, zone: str, day: str, month: str) -> None:
    dimensions: tuple[By, By] = ("day", "month")
    assert [value_of(line(at), each, zone_named(zone)) for each in dimensions] == [day, month]


@pytest.mark.parametrize(
    ("zone", "day", "next_", "begin", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", "2026-03-30", "2026-03-28T23:00:00+00:00", 23),
        ("Europe/Berlin", "2026-10-25", "2026-10-26", "2026-10-24T22:00:00+00:00", 25),
        ("UTC", "2026-10-25", "2026-10-26", "2026-10-25T00:00:00+00:00", 24),
        # At midnight the clocks go on to one o'clock.
        ("Africa/Cairo", "2026-04-24", "2026-04-25", "2026-04-23T22:00:00+00:00", 23),
    ],
)
def test_a_day_is_as_long_as_the_zone_has_it(zone: str, day: str, next_: str, begin: str, hours: int) -> None:
    found = half_open(day, next_, T0, zone_named(zone))
    assert found.since == datetime.fromisoformat(begin)
    assert found.until - found.since == timedelta(hours=hours)
    assert {at.astimezone(zone_named(zone)).date().isoformat() for at in (found.since, found.until - MINUTE)} == {day}


def test_a_period_that_nobody_named_ends_with_today() -> None:
    found = half_open(None, None, datetime(2026, 10, 31, 23, 30, tzinfo=UTC), zone_named("Europe/Berlin"))
    assert found.until == datetime(2026, 11, 1, 23, tzinfo=UTC)
    assert found.since == datetime(2026, 10, 2, 22, tzinfo=UTC)


@pytest.mark.parametrize(
    "name", ["", "Berlin", "America", "../etc/passwd", "/etc/passwd", "Europe/Berlin\0", "x" * 5000]
)
def test_a_zone_is_one_of_ianas(name: str) -> None:
    with pytest.raises(ValueError, match="as IANA does"):
        zone_named(name)


@pytest.mark.parametrize(("since", "until"), [("2026-11-02", "2026-11-01"), ("2026-11-01", "2026-11-01"), ("x", None)])
def test_a_period_without_time_in_it_is_refused(since: str, until: str | None) -> None:
    with pytest.raises(ValueError, match=r"ends before|a time is a day"):
        half_open(since, until, T0, UTC)
