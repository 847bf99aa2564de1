"""`counterseal report`: what it prints is what the ledger says, for people and for programs."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.ledger import Ledger
from tests.api.parked import TARGET, TENANT, confirm, lose_answer, park
from tests.cli.conftest import Run
from tests.ledger.refunds import decision

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


async def test_refunds_are_added_up_for_people_and_programs(run: Run, ledger: Ledger) -> None:
    for target in (
        TARGET,
        {**TARGET, "amount_cents": 123_456_789},
        {**TARGET, "amount_cents": 5_000, "currency": "JPY"},
    ):
        approval = await park(ledger)
        await lose_answer(ledger, approval.request_id, target=target)
        await confirm(ledger, approval.request_id)
    await ledger.approvals.decide(decision(await park(ledger), "deny"), "token")
    report = (await run("report", "refunds", "--json")).json
    assert report["total"]["asked"] == 4
    assert (report["total"]["count"]["executed"], report["total"]["count"]["denied"]) == (3, 1)
    in_yen, dollars = report["total"]["amounts"]
    assert (in_yen["currency"], in_yen["executed"], in_yen["denied"]) == ("JPY", 5_000, 0)
    assert (dollars["currency"], dollars["executed"], dollars["denied"]) == ("USD", 31_240 + 123_456_789, 31_240)
    assert [each["agent_id"] for each in report["by_agent"]] == ["support-bot"]
    assert [each["rule"] for each in report["by_rule"]] == ["over_threshold"]
    assert report["unknown"] == [{"found": "by a look-up", "outcome": "executed", "count": 3}]
    said = (await run("report", "refunds")).out
    assert "1,234,880.29 USD" in said
    assert "5,000 JPY" in said
    assert "by a look-up" in said


async def test_nothing_is_said_to_be_nothing(run: Run, ledger: Ledger) -> None:
    assert "Nobody was asked anything" in (await run("report", "approvals")).out
    assert "No refund was asked for" in (await run("report", "refunds")).out
    assert (await run("report", "refunds", "--json")).json["total"]["asked"] == 0


@pytest.mark.parametrize("command", ["approvals", "refunds"])
async def test_the_period_is_the_one_that_was_asked_for(run: Run, ledger: Ledger, command: str) -> None:
    today = datetime.now(UTC).replace(hour=12)
    for at in (today - 3 * DAY, today - 2 * DAY, today - DAY):
        await park(ledger, requested_at=at)
    since, until = ((today - days * DAY).date().isoformat() for days in (3, 2))
    report = (await run("report", command, "--since", since, "--until", until, "--json")).json
    assert report["total"]["asked"] == 2
    assert report["since"] == f"{since}T00:00:00Z"
    for wrong in (("--since", "yesterday"), ("--since", until, "--until", since)):
        ran = await run("report", command, *wrong)
        assert ran.status == 2
        assert "--since" in ran.complaint
