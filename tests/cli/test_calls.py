"""`counterseal calls`: the story of a call, told only when its chain of hashes holds."""

import base64
from itertools import pairwise
from pathlib import Path

import pytest

from ledger.ledger import Ledger
from schemas.decisions import Approval
from tests.api.parked import TENANT, confirm, lose_answer, park
from tests.cli.conftest import Run

OTHER_KEY = base64.b64encode(b"another master key of 32 bytes!!").decode()


@pytest.fixture
async def approval(ledger: Ledger) -> Approval:
    """A refund that was held, looked at, sent, looked up after its answer was lost, and confirmed."""
    parked = await park(ledger)
    await ledger.approvals.viewed(parked, "ana")
    await lose_answer(ledger, parked.request_id)
    await confirm(ledger, parked.request_id)
    return parked


async def test_list_shows_the_newest_first_and_filters(run: Run, ledger: Ledger, approval: Approval) -> None:
    waiting = await park(ledger)
    every = (await run("calls", "list", "--json")).json["calls"]
    assert [call["request_id"] for call in every] == [waiting.request_id, approval.request_id]
    parked = (await run("calls", "list", "--status", "pending_approval", "--json")).json["calls"]
    assert [call["request_id"] for call in parked] == [waiting.request_id]
    assert (await run("calls", "list", "--tenant", "nobody", "--json")).json["calls"] == []
    assert len((await run("calls", "list", "--tenant", TENANT, "--limit", "1", "--json")).json["calls"]) == 1
    assert waiting.request_id in (await run("calls", "list")).out
    assert (await run("calls", "list", "--status", "lost")).status == 2


async def test_show_tells_the_story_and_vouches_for_it(run: Run, approval: Approval) -> None:
    ran = await run("calls", "show", approval.request_id)
    assert ran.status == 0
    told = " ".join(ran.out.split())
    parts = [
        "executed (OK)",
        "The policy answered “hold” by the rule over_threshold",
        "default@3f1c0a9be21d",
        "ana opened the request",
        "It was about to be sent",
        "The answer was lost",
        "confirmed it as re_example",
        "The chain of 8 hashes holds.",
    ]
    places = [told.find(part) for part in parts]
    assert -1 not in places
    assert places == sorted(places)


async def test_show_as_json_has_every_hash(run: Run, ledger: Ledger, approval: Approval) -> None:
    shown = (await run("calls", "show", approval.request_id, "--json")).json
    stored = await ledger.system.fetch("SELECT hash FROM events WHERE request_id = $1 ORDER BY n", approval.request_id)
    assert [each["hash"] for each in shown["story"]] == [row["hash"].hex() for row in stored]
    assert shown["chain"] == {"holds": True, "problem": None}


async def test_show_says_who_did_it_and_in_which_seal_it_is(
    run: Run, ledger: Ledger, approval: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COUNTERSEAL_TEMPORAL_UI_URL", "http://temporal.example")
    monkeypatch.setenv("COUNTERSEAL_TRACE_URL", "https://traces.example.com/{trace_id}")
    shown = (await run("calls", "show", approval.request_id, "--json")).json
    by = {each["type"]: each["by"] for each in shown["story"]}
    assert (by["call.proposed"], by["approval.viewed"]) == ("support-bot", "ana")
    assert (by["call.decided"], by["effect.confirmed"]) == ("policy default@3f1c0a9be21d", "payments system")
    assert {each["seal"] for each in shown["story"]} == {None}
    assert shown["temporal_url"].startswith("http://temporal.example/namespaces/default/workflows/call%2Facme%2F")
    assert (shown["trace"], shown["trace_url"]) == (None, None)
    assert shown["approval"] == approval.approval_id
    assert shown["facts"]["payment"]["last4"] == "4242"
    await ledger.seals.seal()
    sealed = (await run("calls", "show", approval.request_id, "--json")).json
    assert {each["seal"] for each in sealed["story"]} == {1}
    assert "temporal_url: http://temporal.example" in (await run("calls", "show", approval.request_id)).out


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            "UPDATE events SET body = set_byte(body, 20, get_byte(body, 20) # 1) WHERE n = 2",
            "event 2 was altered",
        ),
        ("UPDATE events SET at = at + interval '1 s' WHERE n = 4", "event 4 was altered"),
        ("UPDATE events SET hash = decode(repeat('ab', 32), 'hex') WHERE n = 3", "event 3 was altered"),
        ("UPDATE events SET previous = decode(repeat('ab', 32), 'hex') WHERE n = 3", "event 3 does not follow event 2"),
        ("DELETE FROM events WHERE n = 1", "event 1 is missing"),
        ("DELETE FROM events WHERE n = 5", "event 5 is missing"),
        ("DELETE FROM events WHERE n = 8", "the call ends at event 8, its events at 7"),
    ],
)
@pytest.mark.parametrize("as_json", [True, False])
async def test_show_says_where_a_broken_chain_breaks(
    run: Run, ledger: Ledger, approval: Approval, change: str, problem: str, as_json: bool
) -> None:
    await ledger.system.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    await ledger.system.execute(change)
    ran = await run("calls", "show", approval.request_id, *(["--json"] if as_json else []))
    assert ran.status == 1
    if as_json:
        assert ran.json["chain"] == {"holds": False, "problem": problem}
        assert ran.json["story"] == []
    else:
        assert problem in ran.out


async def test_events_lists_types_and_opens_bodies_only_when_asked(run: Run, approval: Approval) -> None:
    plain = (await run("calls", "events", approval.request_id)).out
    assert "approval.viewed" in plain
    assert "31240" not in plain
    events = (await run("calls", "events", approval.request_id, "--json")).json["events"]
    assert [event["n"] for event in events] == list(range(1, 9))
    assert events[0]["body"]["call"]["arguments"]["amount_cents"] == 31240
    assert all(event["previous"] == before["hash"] for before, event in pairwise(events))


@pytest.mark.parametrize("command", ["show", "events"])
async def test_an_unknown_call_is_one_line(run: Run, ledger: Ledger, command: str) -> None:
    ran = await run("calls", command, "act_" + "0" * 32)
    assert ran.status == 1
    assert "there is no call act_000" in ran.complaint


async def test_another_master_key_opens_nothing(
    run: Run, approval: Approval, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other.key"
    other.write_text(OTHER_KEY)
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(other))
    ran = await run("calls", "show", approval.request_id)
    assert ran.status == 1
    assert "master key" in ran.complaint


async def test_without_a_master_key_its_setting_is_named(
    run: Run, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("COUNTERSEAL_MASTER_KEY_FILE")
    ran = await run("calls", "list")
    assert ran.status == 1
    assert "COUNTERSEAL_MASTER_KEY_FILE" in ran.complaint
