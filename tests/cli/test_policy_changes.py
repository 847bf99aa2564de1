"""`counterseal policy`: publishing, and a change that takes two people, over a real ledger."""

from pathlib import Path

import pytest

from ledger.ledger import Ledger
from tests.cli.conftest import Run

TEXT = """
name: test
defaults: {{approvers: finance, deadline: 24h, changes: {{people: {people}, group: leads}}}}
tools: {{issue_refund: {{otherwise: {otherwise}}}}}
"""


def policy(folder: Path, otherwise: str, people: int = 1) -> Path:
    path = folder / f"{otherwise}{people}.yaml"
    path.write_text(TEXT.format(otherwise=otherwise, people=people))
    return path


async def test_what_is_published_is_shown_compared_and_kept(run: Run, ledger: Ledger, tmp_path: Path) -> None:
    nothing = await run("policy", "show", "published")
    assert (nothing.status, nothing.complaint) == (
        1,
        "counterseal: no policy was ever published: counterseal policy publish FILE",
    )
    one, two = policy(tmp_path, "hold"), policy(tmp_path, "refuse")
    first = (await run("policy", "publish", one, "--json")).json
    assert first["number"] == 1
    assert (await run("policy", "check", "published")).out.startswith(f"OK  {first['version']}\n")
    differing = await run("policy", "diff", two, "--json")
    assert differing.status == 1
    (difference,) = differing.json["differences"]
    assert (difference["rule"], difference["before"]["decision"], difference["after"]["decision"]) == (
        "otherwise",
        "hold",
        "refuse",
    )
    assert (await run("policy", "publish", two)).status == 0
    assert (await run("policy", "diff", two)).status == 0, "it is in force"
    kept = (await run("policy", "show", "--version", first["version"], "--json")).json
    assert (kept["version"], kept["tools"]) == (first["version"], {"issue_refund": {"otherwise": "hold"}})
    listed = (await run("policy", "list", "--json")).json["publications"]
    assert [each["number"] for each in listed] == [2, 1]
    missing = await run("policy", "show", "--version", "test@000000000000")
    assert missing.complaint == "counterseal: the ledger keeps no policy test@000000000000"


async def test_two_people_change_a_policy_that_wants_two(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tokens: dict[str, str] = {}
    for name in ("ana", "ben"):
        await ledger.principals.add_user("default", name, name.title(), "a long example password", ["leads"])
        _, tokens[name] = await ledger.principals.issue("approver", "default", name)
    assert (await run("policy", "publish", policy(tmp_path, "hold", 2))).status == 0
    new = policy(tmp_path, "refuse", 2)
    alone = await run("policy", "publish", new)
    assert "a change takes 2 people of leads" in alone.complaint
    assert "can be used" in (await run("policy", "publish", new, "--recover")).complaint
    propose = ("policy", "propose", new, "--reason", "as agreed", "--json")
    assert "COUNTERSEAL_TOKEN is no live token" in (await run(*propose)).complaint
    monkeypatch.setenv("COUNTERSEAL_TOKEN", tokens["ana"])
    made = (await run(*propose)).json
    assert made["status"] == "open"
    agree = ("policy", "agree", made["proposal_id"], "--version", made["version"])
    assert "you agreed to it already" in (await run(*agree)).complaint
    monkeypatch.setenv("COUNTERSEAL_TOKEN", tokens["ben"])
    shown = await run("policy", "proposal", made["proposal_id"])
    assert "as agreed" in shown.out
    assert "otherwise" in shown.out
    assert (await run(*agree)).out == f"{made['version']} is in force.\n"
    listed = (await run("policy", "list", "--json")).json
    assert listed["publications"][0]["people"] == ["ana", "ben"]
    assert listed["proposals"][0]["status"] == "in force"
    assert "no longer open" in (await run(*agree)).complaint or "already" in (await run(*agree)).complaint


async def test_what_cannot_be_used_is_replaced_where_that_is_said(run: Run, ledger: Ledger, tmp_path: Path) -> None:
    assert (await run("policy", "publish", policy(tmp_path, "hold", 2))).status == 0
    await ledger.system.execute("INSERT INTO publications SELECT 2, version, 'forged' FROM publications")
    new = policy(tmp_path, "refuse")
    assert "cannot be used: no key here signed publication 2" in (await run("policy", "publish", new)).complaint
    assert (await run("policy", "publish", new, "--recover")).status == 0
    assert "OK" in (await run("policy", "check", "published")).out
    assert "NOT SIGNED" in (await run("policy", "list")).out
