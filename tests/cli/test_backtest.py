"""`counterseal policy backtest`: what would change, for people and for programs."""

from pathlib import Path

import pytest

from ledger.ledger import Ledger
from policy.load import DEFAULT_POLICY
from tests.cli.conftest import Run
from tests.ledger.refunds import POLICY, Refund, new_binding


@pytest.fixture
async def played(ledger: Ledger) -> None:
    await ledger.policies.begun(POLICY.version, POLICY.document.model_dump_json(exclude_defaults=True), by="test")
    for amount in (5_000, 9_000, 25_000):
        await Refund(amount, available=50_000, binding=new_binding(tenant="acme")).admit(ledger)


@pytest.fixture
def candidate(tmp_path: Path) -> Path:
    file = tmp_path / "candidate.yaml"
    file.write_text(DEFAULT_POLICY.read_text().replace("approval_cents: 20000", "approval_cents: 8000"))
    return file


@pytest.mark.parametrize("how", [(), ("--thorough",)])
async def test_the_same_policy_changes_nothing(run: Run, played: None, how: tuple[str, ...]) -> None:
    ran = await run("policy", "backtest", DEFAULT_POLICY, *how)
    assert (ran.status, ran.err) == (0, "")
    assert f"decided again by {POLICY.version}: 0 differences" in ran.out
    assert "->" not in ran.out


async def test_changes_call_by_call_and_in_sum(run: Run, played: None, candidate: Path) -> None:
    ran = await run("policy", "backtest", candidate, "--since", "2020-01-01")
    assert (ran.status, ran.err) == (0, "")
    first = next(line for line in ran.out.splitlines() if "->" in line)
    assert first.startswith("20")
    assert first.endswith(
        "issue_refund  notify (otherwise) -> hold (over_threshold, customer_24h, order_total)  90.00 USD"
    )
    assert "1 held: a person would be asked" in ran.out
    assert "140.00 USD" in ran.out
    short = await run("policy", "backtest", candidate, "--summary")
    assert "->" not in short.out
    assert "1 held" in short.out


async def test_the_same_as_json(run: Run, played: None, candidate: Path) -> None:
    found = (await run("policy", "backtest", candidate, "--json")).json
    (change,) = found["changes"]
    assert (change["kind"], change["amount"], change["currency"]) == ("held", 9_000, "USD")
    assert (change["then"]["verdict"], change["now"]["rule"]) == ("notify", "over_threshold")
    sums = found["summary"]
    assert (sums["calls"], sums["changes"], sums["not_replayed"]) == (3, 1, {})
    assert sums["then"]["money_without_a_person"] == {"USD": 14_000}
    assert sums["now"]["money_without_a_person"] == {"USD": 5_000}
    assert sums["now"]["verdicts"] == {"notify": 1, "hold": 2}
    assert sums["decided_by"] == [POLICY.version]
    other = (await run("policy", "backtest", candidate, "--tenant", "other", "--json")).json
    assert (other["changes"], other["summary"]["calls"]) == ([], 0)


async def test_wrong_usage_is_one_line(run: Run, tmp_path: Path) -> None:
    broken = tmp_path / "broken.yaml"
    broken.write_text("name: broken\ntools: {}\n")
    assert "defaults" in (await run("policy", "backtest", broken)).complaint
    assert (await run("policy", "backtest", DEFAULT_POLICY, "--since", "yesterday")).status == 2
