"""`counterseal policy`, on the tools the service really has."""

import json
from pathlib import Path

from typer.testing import CliRunner, Result

from policy.load import DEFAULT_POLICY, load_policy
from runtime.cli.policy import app
from runtime.policy import load_checked
from tests.policy.refunds import Write
from tools.catalog import Catalog

BROKEN = """
name: test
defaults: {approvers: finance, deadline: 24h}
tools:
  issue_refund:
    rules:
      - {name: one, hold: finance, when: facts.order.colour == "red", because: "it is {args.note}"}
    otherwise: notify
  send_voucher: {otherwise: free}
"""

MEETING = """
name: test
defaults: {approvers: finance, deadline: 24h}
tools:
  issue_refund:
    rules:
      - {name: one, hold: finance, when: args.amount_cents > 500, because: it is much}
      - {name: two, hold: legal, when: facts.order.disputed, because: it is disputed}
    otherwise: notify
"""


def run(*arguments: str) -> Result:
    return CliRunner(env={"COLUMNS": "240", "COUNTERSEAL_POLICY": None}).invoke(app, list(arguments))


def test_the_default_policy_fits_the_tools() -> None:
    catalog = Catalog.load()
    policy = load_checked(DEFAULT_POLICY, catalog)
    assert set(policy.tools) == {entry.manifest.name for entry in catalog.all()}


def test_check_says_ok_and_the_version() -> None:
    result = run("check")
    assert (result.exit_code, result.stdout) == (0, f"OK  {load_policy(DEFAULT_POLICY).version}\n")


def test_check_names_the_tools_it_leaves_out(write: Write) -> None:
    head = "name: test\ndefaults: {approvers: finance, deadline: 24h}"
    path = str(write(head + "\ntools: {lookup_orders: {otherwise: free}}"))
    assert "held for finance: cancel_order, " in run("check", path).stdout
    answer = json.loads(run("check", path, "--json").stdout)
    assert answer["ok"] is True
    assert answer["version"].startswith("test@")
    assert "issue_refund" in answer["tools_without_policy"]
    assert "lookup_orders" not in answer["tools_without_policy"]


def test_check_prints_every_problem(write: Write) -> None:
    path = write(BROKEN)
    result = run("check", str(path))
    assert result.exit_code == 1
    lines = result.stdout.splitlines()
    assert len(lines) == 3
    assert lines[0].startswith(f"{path}: issue_refund / one / when: facts.order.colour is not known; there is facts.")
    assert lines[1].startswith(f"{path}: issue_refund / one / because: args.note is written by the agent")
    assert lines[2].startswith(f"{path}: send_voucher: there is no such tool; there is cancel_order, ")
    answer = json.loads(run("check", str(path), "--json").stdout)
    assert answer["ok"] is False
    assert [problem["where"] for problem in answer["problems"]] == [
        "issue_refund / one / when",
        "issue_refund / one / because",
        "send_voucher",
    ]


def test_check_warns_of_rules_that_meet_and_is_strict_where_asked(write: Write) -> None:
    path = write(MEETING)
    meeting = f"{path}: issue_refund / two: holds where one does too"
    result = run("check", str(path))
    lines = result.stdout.splitlines()
    assert result.exit_code == 0
    assert lines[0].startswith(f"Warning  {meeting}")
    assert lines[1].startswith("OK  test@")
    strict = run("check", str(path), "--strict")
    assert (strict.exit_code, "OK" in strict.stdout) == (1, False)
    assert strict.stdout.startswith(f"Warning  {meeting}")
    answer = json.loads(run("check", str(path), "--strict", "--json").stdout)
    assert (answer["ok"], [each["where"] for each in answer["warnings"]]) == (False, ["issue_refund / two"])
    assert run("check", "--strict").exit_code == 0, "the default policy is without a warning"


def test_check_takes_the_policy_of_the_environment(tmp_path: Path) -> None:
    missing = tmp_path / "missing.yaml"
    result = CliRunner(env={"COUNTERSEAL_POLICY": str(missing)}).invoke(app, ["check"])
    assert (result.exit_code, result.stdout) == (1, f"{missing}: cannot be read: No such file or directory\n")


def test_show_is_a_table_of_decisions_in_their_order() -> None:
    result = run("show")
    assert result.exit_code == 0
    rows = [line for line in result.stdout.splitlines() if "│" in line]
    order = (
        "order_state",
        "too_new",
        "disputed",
        "refunds_per_run",
        "refunds_per_hour",
        "over_threshold",
        "fraud_flag",
    )
    at = [next(i for i, row in enumerate(rows) if name in row) for name in order]
    assert at == sorted(at)
    assert 'facts.order.status in ["shipped", "delivered"]' in result.stdout
    assert "hold for finance, 24h" in result.stdout
    assert "thresholds.approval_cents = 20000" in result.stdout
    assert "more than 100 calls per tool in 1h" in result.stdout


def test_show_as_json() -> None:
    shown = json.loads(run("show", "--json").stdout)
    assert shown["version"] == load_policy(DEFAULT_POLICY).version
    refund = shown["tools"]["issue_refund"]
    assert (refund["thresholds"]["approval_cents"], refund["thresholds"]["minimum_age_minutes"]) == (20_000, 1_440)
    assert refund["breaker"] == {"window": 3_600, "max": 200, "trips": "class:money_movement"}
    assert refund["totals"]["agent_1h"] == {"per": "agent", "window": 3_600, "of": "amount", "unasked": True}
    assert shown["defaults"]["parked"] == {"per_agent": 200, "per_tenant": 500}


def test_show_of_a_broken_policy_is_one_line(write: Write) -> None:
    path = write(BROKEN)
    result = run("show", str(path))
    assert result.exit_code == 1
    assert str(result.exception).startswith(f"{path}: issue_refund / one / when: facts.order.colour is not known")
    assert str(result.exception).endswith("(counterseal policy check shows all problems)")
