"""`counterseal switches`: what it turns is off for the service, what it shows is so."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest

from ledger.ledger import Ledger
from ledger.switches import stream_of
from schemas.codes import Code
from schemas.events import SwitchChanged
from schemas.switches import EVERYONE
from tests.cli.conftest import Run
from tests.ledger.refunds import Refund, new_binding, parked
from tools import issue_refund

NAME = "class:money_movement"
WHY = ("--reason", "gateway incident")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long the acknowledgement takes is not what is looked at here."""
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))


async def _changes(ledger: Ledger, tenant: str) -> list[SwitchChanged]:
    events = [event for _, event in await ledger.calls.events(stream_of(tenant))]
    return [event for event in events if isinstance(event, SwitchChanged)]


async def test_off_stops_everyones_calls_and_on_lets_them_through(run: Run, ledger: Ledger) -> None:
    ran = await run("switches", "off", NAME, *WHY)
    assert (ran.status, ran.err) == (0, "")
    assert "is off" in ran.out
    assert (await Refund(1_000).admit(ledger)).code is Code.CAPABILITY_DISABLED
    ran = await run("switches", "on", NAME, "--reason", "incident over")
    assert (ran.status, ran.err) == (0, "")
    assert (await Refund(1_000).admit(ledger)).code is Code.IN_PROGRESS
    off, on = await _changes(ledger, EVERYONE)
    assert (off.off, off.reason, on.off, on.reason) == (True, "gateway incident", False, "incident over")
    assert off.by == on.by
    assert off.by, "who it was is recorded"


async def test_a_tenants_stops_that_tenant_alone(run: Run, ledger: Ledger) -> None:
    binding = new_binding()
    assert (await run("switches", "off", NAME, "--tenant", binding.tenant, *WHY)).status == 0
    assert (await Refund(1_000, binding=binding).admit(ledger)).code is Code.CAPABILITY_DISABLED
    assert (await Refund(1_000).admit(ledger)).code is Code.IN_PROGRESS
    assert (await run("switches", "on", NAME, *WHY)).status == 1, "everyone's was never off"
    assert (await run("switches", "on", NAME, "--tenant", binding.tenant, *WHY)).status == 0


async def test_the_vault_is_locked_by_its_switch(run: Run, ledger: Ledger) -> None:
    assert (await run("switches", "off", "vault", *WHY)).status == 0
    assert (await Refund(1_000).admit(ledger)).code is Code.VAULT_LOCKED
    assert (await run("switches", "on", "vault", *WHY)).status == 0


async def test_list_says_what_is_off_for_whom_and_why(run: Run, ledger: Ledger) -> None:
    assert (await run("switches", "list")).out.strip() == "Nothing is off."
    assert (await run("switches", "list", "--json")).json == {"off": []}
    await run("switches", "off", NAME, *WHY)
    await run("switches", "off", "vault", "--tenant", "acme", "--pause-deadlines", "--reason", "a key leaked")
    listed = (await run("switches", "list", "--json")).json["off"]
    shown = [(each["tenant"], each["name"], each["deadlines"], each["reason"]) for each in listed]
    everyones, acmes = (EVERYONE, NAME, "run", "gateway incident"), ("acme", "vault", "pause", "a key leaked")
    assert shown == [everyones, acmes]
    assert all(each["off_at"] and each["off_by"] for each in listed)
    of_globex = (await run("switches", "list", "--tenant", "globex", "--json")).json["off"]
    assert [each["tenant"] for each in of_globex] == [EVERYONE]
    text = (await run("switches", "list")).out
    assert all(part in text for part in ("everyone", "acme", "vault", "pause"))


async def test_check_shows_what_it_would_stop_and_turns_nothing(run: Run, ledger: Ledger) -> None:
    approval = await parked(ledger)
    binding = new_binding(tenant=approval.tenant)
    decided = await Refund(1_000, binding=binding, order_id="ord_8f2b91a04c7e").admit(ledger)
    await ledger.system.execute("UPDATE calls SET intended_at = NULL WHERE request_id = $1", decided.request_id)
    checked = await run("switches", "off", NAME, "--check", "--json", *WHY)
    assert checked.status == 0
    expected = {"parked": 1, "unsent": 1, "unknown": 0, "runs": 0}
    assert checked.json == {"switch": NAME, "off": None, "covers": expected}
    text = (await run("switches", "off", NAME, "--check", *WHY)).out
    assert "would stop" in text
    assert "1 parked and 1 decided" in " ".join(text.split())
    assert await ledger.switches.off(None) == []
    elsewhere = (await run("switches", "off", NAME, "--tenant", "acme", "--check", "--json", *WHY)).json
    assert set(elsewhere["covers"].values()) == {0}
    turned = (await run("switches", "off", NAME, "--json", *WHY)).json
    assert turned["covers"] == expected
    assert (turned["off"]["name"], turned["off"]["reason"]) == (NAME, "gateway incident")
    assert [each.name for each in await ledger.switches.off(None)] == [NAME]


async def test_paused_deadlines_go_on_from_where_they_were(run: Run, ledger: Ledger) -> None:
    approval = await parked(ledger)
    before = approval.expires_at
    await run("switches", "off", "tool:issue_refund", "--pause-deadlines", *WHY)
    await ledger.system.execute("UPDATE switches SET off_at = off_at - interval '3 hours'")
    await run("switches", "on", "tool:issue_refund", *WHY)
    found = await ledger.of(approval.tenant).approvals.get(approval.tenant, approval.approval_id)
    assert found is not None
    assert timedelta(hours=3) <= found.expires_at - before < timedelta(hours=3, minutes=1)


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        (("off", NAME), "--reason"),
        (("on", NAME), "--reason"),
        (("off", NAME, "--reason", "  "), "say why"),
        (("off", NAME, "--reason", "  ", "--check"), "say why"),
        (("off", "money", *WHY), "a switch is all"),
        (("off", "class:money", *WHY), "there is no class money"),
        (("off", "tenant:globex", "--tenant", "acme", *WHY), "only name that tenant"),
        (("off", *WHY), "'name'"),
    ],
)
async def test_wrong_usage_turns_nothing(run: Run, ledger: Ledger, arguments: tuple[str, ...], because: str) -> None:
    ran = await run("switches", *arguments)
    assert ran.status == 2
    assert because in " ".join(ran.err.split())
    assert await ledger.switches.off(None) == []


async def test_turning_on_what_is_on_is_a_failure(run: Run, ledger: Ledger) -> None:
    ran = await run("switches", "on", NAME, *WHY)
    assert ran.status == 1
    assert f"{NAME} is not off" in ran.complaint


async def test_a_class_reaches_the_tools_of_a_team_as_well(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await parked(ledger)
    await ledger.system.execute("UPDATE approvals SET tool = 'a_refund'")
    await ledger.system.execute("UPDATE calls SET tool = 'a_refund'")
    arguments = ("switches", "off", NAME, "--check", "--json", *WHY)
    assert (await run(*arguments)).json["covers"]["parked"] == 0
    monkeypatch.setenv("COUNTERSEAL_TOOLS_PATH", str(tmp_path / "missing"))
    assert (await run(*arguments)).status == 1, "a folder that is not there is no folder without tools"
    own = tmp_path / "tools" / "a_refund"
    shutil.copytree(Path(issue_refund.__file__).parent, own, ignore=shutil.ignore_patterns("__pycache__"))
    for file in (own / "manifest.yaml", own / "tool.py"):
        file.write_text(file.read_text().replace("issue_refund", "a_refund"))
    monkeypatch.setenv("COUNTERSEAL_TOOLS_PATH", str(tmp_path / "tools"))
    assert (await run(*arguments)).json["covers"]["parked"] == 1
