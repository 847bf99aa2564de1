"""What is said of a gate: the interval against published values, the bands at their borders, and the sentences."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from ledger.measures import ENOUGH, Band, Rate, finding, rounded, wilson, words_to_read
from ledger.periods import period
from schemas.decisions import Approval
from tests.api.parked import facts


@pytest.mark.parametrize(
    ("part", "whole", "low", "high"),
    [
        # Newcombe 1998, "Two-sided confidence intervals for the single proportion", Statistics in Medicine 17, table I,
        # method 3 (the score method without continuity correction).
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_the_interval_is_the_published_one(part: int, whole: int, low: float, high: float) -> None:
    assert wilson(part, whole) == pytest.approx((low, high), abs=5e-5)
    # The rest has the same interval, seen from the other side.
    assert wilson(whole - part, whole) == pytest.approx((1 - high, 1 - low), abs=5e-5)


def test_the_interval_stays_within_what_a_share_can_be() -> None:
    for whole in (1, 2, 19, 10**6):
        for part in {0, 1, whole // 2, whole}:
            low, high = wilson(part, whole)
            assert 0 <= low <= part / whole <= high <= 1
    assert not math.isclose(wilson(20, 20)[0], 1)


@pytest.mark.parametrize(("part", "whole"), [(0, 0), (2, 1), (-1, 5)])
def test_what_is_no_share_has_no_interval(part: int, whole: int) -> None:
    with pytest.raises(ValueError, match="not a part"):
        wilson(part, whole)


@pytest.mark.parametrize(
    ("approved", "decided", "band"),
    [
        (95, 100, "healthy"),
        (96, 100, "asks_for_nothing"),
        (950_001, 1_000_000, "asks_for_nothing"),
        (75, 100, "healthy"),
        (74, 100, "often_refused"),
        (749_999, 1_000_000, "often_refused"),
        (0, 20, "often_refused"),
        (20, 20, "asks_for_nothing"),
    ],
)
def test_the_bands_have_exact_borders(approved: int, decided: int, band: Band) -> None:
    assert Rate(approved, decided).band == band


@pytest.mark.parametrize(
    ("approved", "denied", "begins", "certain"),
    [
        (1_000, 5, "This gate asks for nothing: raise the threshold, or make it a notice.", True),
        (20, 0, "This gate asks for nothing: raise the threshold, or make it a notice.", False),
        (850, 150, "This gate is healthy: people approve most of what it asks, and not all.", True),
        (17, 3, "This gate is healthy: people approve most of what it asks, and not all.", False),
        (10, 90, "Agents ask for what people refuse: tighten the rule, or the agent's instructions.", True),
        (14, 6, "Agents ask for what people refuse: tighten the rule, or the agent's instructions.", False),
    ],
)
def test_a_gate_is_told_in_plain_words_what_to_do(approved: int, denied: int, begins: str, certain: bool) -> None:
    found = finding(approved, denied)
    assert (found.missing, found.certain) == (0, certain)
    assert found.sentence.startswith(begins)
    assert ("not certain yet" in found.sentence) is not certain


def test_an_interval_is_rounded_outwards() -> None:
    assert rounded((83.9, 99.1)) == (83, 100)
    assert rounded((75.0, 95.0)) == (75, 95)


@pytest.mark.parametrize(
    ("approved", "denied", "said"),
    [(0, 0, "20 more are needed"), (ENOUGH - 1, 0, "1 more is needed"), (9, 8, "3 more are needed")],
)
def test_too_few_decisions_say_how_many_are_missing(approved: int, denied: int, said: str) -> None:
    found = finding(approved, denied)
    assert found.band is None
    assert found.missing == ENOUGH - approved - denied
    assert said in found.sentence
    assert finding(ENOUGH, 0).band is not None


# What has to be read


def _approval(**changes: object) -> Approval:
    now = datetime(2026, 11, 30, tzinfo=UTC)
    names = ("approval_id", "request_id", "tenant", "tool", "tool_version", "rule", "policy_version", "action_digest")
    more = ("approvers", "agent_id", "actor_id", "customer_id", "run_id")
    made = Approval.model_validate(
        {
            **dict.fromkeys((*names, *more), "x"),
            "title": "Refund 312.40 USD",
            "because": "it is much",
            "arguments": {"amount_cents": 31_240, "note": "one two three", "idempotency_key": "0" * 32},
            "facts": {},
            "facts_at": now,
            "rules": (),
            "status": "open",
            "requested_at": now,
            "expires_at": now,
            "untrusted": {"note": "one two three"},
        }
    )
    return made.model_copy(update=changes)


def test_what_is_read_is_the_action_and_not_what_the_agent_says_of_it() -> None:
    assert words_to_read(_approval()) == 3 + 3 + 1
    loud = _approval(untrusted={"note": "word " * 1_000}, arguments={"amount_cents": 1, "note": "word " * 1_000})
    assert words_to_read(loud) == words_to_read(_approval())
    assert words_to_read(_approval(facts={"a": {"b": ["two words", None, True]}, "c": 1.5})) == 7 + 5
    # About nine seconds for a refund at 300 words a minute: less than a careful look, more than a click.
    assert 20 < words_to_read(_approval(facts=facts())) < 60


# Periods

NOW = datetime(2026, 11, 30, 23, 30, tzinfo=UTC)
DAY = timedelta(days=1)


def _utc(day: int, hour: int = 0, month: int = 11) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


@pytest.mark.parametrize(
    ("since", "until", "begin", "end"),
    [
        (None, None, _utc(1), _utc(1, month=12)),
        ("", "", _utc(1), _utc(1, month=12)),
        ("2026-11-03", "2026-11-03", _utc(3), _utc(4)),
        ("2026-11-03T05:00:00+02:00", "2026-11-04T05:00Z", _utc(3, 3), _utc(4, 5)),
        (None, "2026-11-30", _utc(1), _utc(1, month=12)),
        ("2026-11-30", None, _utc(30), _utc(1, month=12)),
    ],
)
def test_a_day_is_counted_whole_and_a_time_to_the_second(
    since: str | None, until: str | None, begin: datetime, end: datetime
) -> None:
    found = period(since, until, NOW)
    assert (found.since, found.until) == (begin, end)


def test_today_is_the_day_in_utc() -> None:
    elsewhere = NOW.astimezone(tz=(NOW + DAY).tzinfo)
    assert period(None, None, elsewhere) == period(None, None, NOW)


@pytest.mark.parametrize(
    ("since", "until"),
    [
        ("yesterday", None),
        ("2026-11-31", None),
        ("2026-11-03T05:00:00", None),
        (None, "0001-01-01T00:00:00+14:00"),
        ("9999-12-31", None),
        (None, "9999-12-31T23:59:59-14:00"),
        ("\u0662026-11-03", None),
        ("x" * 100_000, None),
        ("2026-11-03\0", None),
    ],
)
def test_what_is_no_time_is_said_so(since: str | None, until: str | None) -> None:
    with pytest.raises(ValueError, match="a time is a day like"):
        period(since, until, NOW)


def test_a_period_that_is_empty_is_refused() -> None:
    for since, until in (
        ("2026-11-03", "2026-11-02"),
        ("2026-12-01", None),
        ("2026-11-03T01:00Z", "2026-11-03T01:00Z"),
    ):
        with pytest.raises(ValueError, match="ends before it begins"):
            period(since, until, NOW)


@pytest.mark.parametrize(("days", "step"), [(1, 1), (45, 1), (46, 7), (315, 7), (316, 30), (1350, 30), (40_000, 3650)])
def test_a_long_period_is_drawn_in_fewer_columns(days: int, step: int) -> None:
    since = datetime(2050, 1, 1, tzinfo=UTC) if days < 2_000 else datetime(2000, 1, 1, tzinfo=UTC)
    until = since + timedelta(days=days)
    assert period(since.isoformat(), until.isoformat(), NOW).step == step * DAY
