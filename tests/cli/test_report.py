"""`counterseal report`: what it prints is what the ledger says, for people and for programs."""

import csv
import io
from collections import Counter
from datetime import UTC, datetime, timedelta

import pytest

from ledger.ledger import Ledger
from tests.api.parked import TARGET, TENANT, confirm, lose_answer, park
from tests.cli.conftest import Run
from tests.ledger.refunds import decide, decision
from tests.ledger.test_refund_report import reverse

DAY = timedelta(days=1)


@pytest.fixture
async def decided(ledger: Ledger) -> None:
    """A rule with 24 decisions on the page, of which one is a denial; and another tenant's."""
    for n in range(24):
        approval = await park(ledger)
        await ledger.approvals.viewed(approval, "ana")
        made = decision(approval, "approve" if n else "deny")
        await ledger.approvals.decide(made, "token", (), "page")
    other = await park(ledger, tenant="other", rule="fraud_flag")
    await ledger.approvals.decide(decision(other, approver="lea"), "token", (), "api")


async def test_approvals_as_json_have_every_number(run: Run, ledger: Ledger, decided: None) -> None:
    report = (await run("report", "approvals", "--tenant", TENANT, "--json")).json
    assert [(each["tool"], each["rule"]) for each in report["gates"]] == [
        ("issue_refund", None),
        ("issue_refund", "over_threshold"),
    ]
    gate = report["gates"][1]
    assert (gate["asked"], gate["approved"], gate["denied"], gate["expired"]) == (24, 23, 1, 0)
    assert gate["approve_rate"] == {"percent": 95.8, "low_percent": 79.8, "high_percent": 99.3}
    assert (gate["finding"]["band"], gate["finding"]["certain"]) == ("asks_for_nothing", False)
    (ana,) = report["approvers"]
    assert (ana["approver"], ana["approved"], ana["denied"], ana["by_others"]) == ("ana", 23, 1, 0)
    assert ana["decisions"] == {"timed": 24, "too_quick_to_read": 24, "unopened": 0, "through_api": 0}
    assert (report["gated"]["held"], report["gated"]["decided"]) == (24, 24)
    assert sum(each["held"] for each in report["gated"]["parts"]) == 24
    assert report["queue"] == {"waiting": 0, "due_within_the_hour": 0, "oldest_requested_at": None}
    assert report["measures"]["words_per_minute"] == 300
    everyones = (await run("report", "approvals", "--json")).json
    assert [each["approver"] for each in everyones["approvers"]] == ["ana", "lea"]
    assert everyones["approvers"][1]["decisions"]["through_api"] == 1
    only = (await run("report", "approvals", "--tool", "cancel_order", "--json")).json
    assert only["gates"] == []


async def test_approvals_as_text_say_what_to_do(run: Run, decided: None) -> None:
    ran = await run("report", "approvals", "--tenant", TENANT)
    assert (ran.status, ran.err) == (0, "")
    assert "issue_refund / over_threshold: This gate asks for nothing: raise the threshold" in ran.out
    assert "95.8 % (79–100)" in ran.out
    assert "24 writes decided by the policy, 24 of them held (100.0 %)" in ran.out
    assert "measures the gates, not the people" in ran.out
    assert "Quicker than reading" in ran.out


async def test_what_others_named_obeys_no_terminal(run: Run, ledger: Ledger) -> None:
    await park(ledger, rule="evil\x1b[2J")
    for command in ("approvals", "refunds"):
        ran = await run("report", command)
        assert ran.status == 0
        assert "\x1b" not in ran.out
        assert "evil\\x1b" in ran.out


@pytest.fixture
async def refunded(ledger: Ledger) -> list[str]:
    """Three refunds in two currencies, of which one is reversed; one that is not known, and one denial. Their calls."""
    now, made = datetime.now(UTC), list[str]()
    for amount, currency in ((31_240, "USD"), (123_456_789, "USD"), (5_000, "JPY")):
        approval = await park(ledger)
        await decide(ledger, approval)
        target = {**TARGET, "amount_cents": amount, "currency": currency}
        await lose_answer(ledger, approval.request_id, target=target)
        await confirm(ledger, approval.request_id, at=now, remote_id=f"re_{amount}")
        made.append(approval.request_id)
    await reverse(ledger, made[0])
    lost = await park(ledger)
    await lose_answer(ledger, lost.request_id)
    await ledger.approvals.decide(decision(await park(ledger), "deny"), "token")
    return [*made, lost.request_id]


async def test_refunds_are_booked_for_programs(run: Run, refunded: list[str]) -> None:
    report = (await run("report", "refunds", "--json", "--by", "reason_code", "--by", "approver")).json
    yen = {"refunds": 1, "refunded_minor": 5_000, "reversals": 0, "reversed_minor": 0, "net_minor": 5_000}
    dollars = {
        "refunds": 2,
        "refunded_minor": 123_488_029,
        "reversals": 1,
        "reversed_minor": -31_240,
        "net_minor": 123_456_789,
    }
    assert report["totals"] == [{"currency": "JPY", **yen}, {"currency": "USD", **dollars}]
    group = {"reason_code": "not_delivered", "approver": "ana"}
    assert report["groups"] == [{**group, "currency": "JPY", **yen}, {**group, "currency": "USD", **dollars}]
    assert (report["zone"], report["by"]) == ("UTC", ["reason_code", "approver"])
    assert [each["kind"] for each in report["lines"]].count("reversal") == 1
    first = next(each for each in report["lines"] if each["request_id"] == refunded[1])
    assert (first["refund_id"], first["time_of"], first["amount_minor"]) == ("re_123456789", "gateway", 123_456_789)
    (lost,) = report["unsettled"]
    assert (lost["request_id"], lost["state"], lost["amount_minor"]) == (refunded[3], "unknown", 31_240)


async def test_refunds_that_were_asked_for_are_added_up(run: Run, refunded: list[str]) -> None:
    asked = (await run("report", "refunds", "--json")).json["asked"]
    assert asked["total"]["asked"] == 5
    assert {name: n for name, n in asked["total"]["count"].items() if n} == {
        "executed": 2,
        "reversed": 1,
        "denied": 1,
        "outcome_unknown": 1,
    }
    in_yen, dollars = asked["total"]["amounts"]
    assert (in_yen["currency"], in_yen["executed"], in_yen["denied"]) == ("JPY", 5_000, 0)
    assert (dollars["currency"], dollars["executed"], dollars["denied"]) == ("USD", 123_456_789, 31_240)
    assert [each["agent_id"] for each in asked["by_agent"]] == ["support-bot"]
    assert [each["rule"] for each in asked["by_rule"]] == ["over_threshold"]
    assert {"found": "by a look-up", "outcome": "executed", "count": 2} in asked["unknown"]


async def test_refunds_are_told_to_people(run: Run, refunded: list[str]) -> None:
    said = (await run("report", "refunds")).out
    assert "1,234,880.29 USD" in said
    assert "-312.40 USD" in said
    assert "5,000 JPY" in said
    assert "being looked up" in said
    assert "not_delivered" in said
    assert "by a look-up" in said


async def test_a_spreadsheet_comes_to_the_same_totals(run: Run, refunded: list[str]) -> None:
    """RFC 4180: what its lines add up to is what the JSON has as totals."""
    totals = (await run("report", "refunds", "--json")).json["totals"]
    ran = await run("report", "refunds", "--csv")
    assert ran.out.endswith("\r\n")
    assert "\n" not in ran.out.replace("\r\n", "")
    records = list(csv.DictReader(io.StringIO(ran.out, newline="")))
    net = Counter[str]()
    for record in records:
        net[record["currency"]] += int(record["amount_minor"])
    assert net == {each["currency"]: each["net_minor"] for each in totals}
    assert {record["approver"] for record in records} == {"ana"}
    by_day = (await run("report", "refunds", "--csv", "--by", "currency", "--by", "day")).out
    groups = list(csv.DictReader(io.StringIO(by_day, newline="")))
    assert {each["currency"]: int(each["net_minor"]) for each in groups} == net
    assert set(groups[0]) == {
        "day",
        "currency",
        "refunds",
        "refunded_minor",
        "reversals",
        "reversed_minor",
        "net_minor",
    }


async def test_a_spreadsheet_runs_nothing_of_it(run: Run, ledger: Ledger) -> None:
    evil = ("=1+1", "+1", "-1", "@SUM(1)", " =1", "\t=1", "\r=1", "＝1")
    for name in (*evil, 'a",b'):
        approval = await park(ledger, agent_id=name, rule=name)
        await lose_answer(ledger, approval.request_id)
        await confirm(ledger, approval.request_id, at=datetime.now(UTC))
    records = list(csv.DictReader(io.StringIO((await run("report", "refunds", "--csv")).out, newline="")))
    assert {record["agent"] for record in records} == {'a",b', *(f"'{each}" for each in evil)}
    assert all(record["agent"] == record["rule"] for record in records)
    assert {record["amount_minor"] for record in records} == {"31240"}


@pytest.mark.parametrize(
    "wrong",
    [
        ("--zone", "Berlin"),
        ("--json", "--csv"),
        ("--by", "customer"),
        ("--since", "2026-11-02", "--until", "2026-11-02"),
    ],
)
async def test_what_cannot_be_booked_is_wrong_usage(run: Run, wrong: tuple[str, ...]) -> None:
    ran = await run("report", "refunds", *wrong)
    assert ran.status == 2
    assert ran.out == ""
    assert "--" in ran.complaint


async def test_nothing_is_said_to_be_nothing(run: Run, ledger: Ledger) -> None:
    assert "Nobody was asked anything" in (await run("report", "approvals")).out
    assert "No refund was booked" in (await run("report", "refunds")).out
    empty = (await run("report", "refunds", "--json")).json
    assert (empty["totals"], empty["lines"], empty["unsettled"], empty["asked"]["total"]["asked"]) == ([], [], [], 0)


@pytest.mark.parametrize(("command", "days"), [("approvals", 2), ("refunds", 1)])
async def test_the_period_is_the_one_that_was_asked_for(run: Run, ledger: Ledger, command: str, days: int) -> None:
    """The last day of one is in it; the other, for books, ends just before it."""
    today = datetime.now(UTC).replace(hour=12)
    for at in (today - 3 * DAY, today - 2 * DAY, today - DAY):
        await park(ledger, requested_at=at)
    since, until = ((today - back * DAY).date().isoformat() for back in (3, 2))
    report = (await run("report", command, "--since", since, "--until", until, "--json")).json
    assert report.get("asked", report)["total"]["asked"] == days
    assert report["since"] == f"{since}T00:00:00Z"
    for wrong in (("--since", "yesterday"), ("--since", until, "--until", since)):
        ran = await run("report", command, *wrong)
        assert ran.status == 2
        assert "--since" in ran.complaint
