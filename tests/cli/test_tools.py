"""`counterseal tools`."""

import shutil
from pathlib import Path

import pytest

import tools
from ledger.ledger import Ledger
from tests.cli.conftest import Run
from tests.ledger.refunds import Refund, decide, new_binding, parked
from tools.catalog import Catalog

BUILT_IN = Path(tools.__file__).parent


async def test_the_inventory_is_the_whole_matrix(run: Run) -> None:
    rows = {row["name"]: row for row in (await run("tools", "inventory", "--json")).json["tools"]}
    assert set(rows) == {entry.manifest.name for entry in Catalog.load().all()}
    refund = rows["issue_refund"]
    assert refund["reaches"] == [{"system": "payments", "access": "write"}, {"system": "orders", "access": "read"}]
    assert (refund["credential"], refund["effective_risk"], refund["missing"]) == ("payments", "high", [])
    assert (refund["reversibility"], refund["published"], refund["otherwise"]) == ("irreversible", True, "notify")
    assert refund["blast_radius"] == {"rows": 1, "accounts": 1, "tenants": 1, "people": 1}
    assert refund["sees"]["description_characters"] > 1000
    assert refund["sees"]["tokens_about"] > 400
    file, _, line = refund["code"].partition(":")
    source = (BUILT_IN.parent / file).read_text().splitlines()
    assert source[int(line) - 1].startswith("class IssueRefund(")
    assert {"verdict": "hold", "rule": "four_eyes", "who": "2 of finance"} in refund["gate"]
    assert [step["verdict"] for step in refund["gate"]] == sorted(
        (step["verdict"] for step in refund["gate"]), key=["refuse", "hold", "notify"].index
    )
    assert rows["reinstate_order"]["published"] is False
    assert rows["lookup_orders"]["reaches"] == [{"system": "orders", "access": "read"}]
    shown = (await run("tools", "inventory")).out
    assert all(name in shown for name in rows)


async def test_the_inventory_counts_what_the_ledger_has(run: Run, ledger: Ledger) -> None:
    credential = await ledger.vault.put("stripe", "sk_secret", by="ops")
    await ledger.vault.put("store", "another_secret", by="ops")
    await Refund(5_000, binding=new_binding(tenant="acme")).admit(ledger)
    approval = await parked(ledger, binding=new_binding(tenant="acme"))
    await decide(ledger, approval)
    ran = await run("tools", "inventory", "--tenant", "acme", "--json")
    (refund,) = (row for row in ran.json["tools"] if row["name"] == "issue_refund")
    assert refund["last_30_days"] == {
        "calls": 2,
        "held": 1,
        "refused": 0,
        "executed": 0,
        "approve_rate": {"percent": 100.0, "decisions": 1},
    }
    assert refund["credential_ids"] == [credential]
    assert "_secret" not in ran.out
    other = (await run("tools", "inventory", "--tenant", "other", "--json")).json["tools"]
    assert all(row["last_30_days"]["calls"] == 0 for row in other)


async def test_a_tool_that_the_policy_does_not_name_fails_closed(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("name: narrow\ndefaults: {approvers: finance, deadline: 1h}\ntools: {}\n")
    ran = await run("tools", "inventory", "--policy", policy, "--json")
    rows = {row["name"]: row for row in ran.json["tools"]}
    assert rows["issue_refund"]["gate"] == [{"verdict": "hold", "rule": "no_policy", "who": "finance"}]
    assert rows["lookup_orders"]["otherwise"] == "refuse"


async def test_check_is_content_with_what_is_built_in(run: Run) -> None:
    ran = await run("tools", "check", "--json")
    assert ran.status == 0
    assert ran.json["ok"] is True
    assert ran.json["problems"] == []
    assert (await run("tools", "check")).out.startswith("OK")


@pytest.mark.parametrize("as_json", [True, False])
async def test_check_names_the_file_and_the_field_of_a_broken_manifest(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    monkeypatch.setattr(tools, "__path__", list(tools.__path__))  # loading appends the extra folder
    folder = tmp_path / "extra" / "gift_card"
    folder.mkdir(parents=True)
    shutil.copy(BUILT_IN / "issue_refund" / "manifest.yaml", folder / "manifest.yaml")
    with (folder / "manifest.yaml").open("a") as manifest:
        manifest.write("colour: red\n")
    ran = await run("tools", "check", "--tools", tmp_path / "extra", *(["--json"] if as_json else []))
    assert ran.status == 1
    (problem,) = ran.json["problems"] if as_json else ran.out.splitlines()
    assert "gift_card/manifest.yaml: colour" in problem
    refused = await run("tools", "inventory", "--tools", tmp_path / "extra")
    assert refused.status == 1
    assert "gift_card/manifest.yaml" in refused.complaint


async def test_check_reads_the_policy_over_the_tools(run: Run, tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(
        "name: odd\ndefaults: {approvers: finance, deadline: 1h}\ntools: {no_such_tool: {otherwise: free}}\n"
    )
    ran = await run("tools", "check", "--policy", policy, "--json")
    assert ran.status == 1
    assert "no_such_tool" in ran.json["problems"][0]


async def test_new_begins_a_folder_and_never_writes_over_one(run: Run, tmp_path: Path) -> None:
    root = tmp_path / "our_tools"
    ran = await run("tools", "new", "send_money", "--http", "--tools", root)
    assert ran.status == 0
    assert [Path(line).relative_to(root).as_posix() for line in ran.out.splitlines()] == [
        "send_money/manifest.yaml",
        "send_money/policy.yaml",
        "send_money/tests/test_send_money.py",
        "send_money/http.yaml",
    ]
    again = await run("tools", "new", "send_money", "--tools", root)
    assert (again.status, "is there already" in again.complaint) == (1, True)
    assert (await run("tools", "new", "Send-Money", "--tools", root)).status == 2
    assert (await run("tools", "new", "send_money")).status == 2
