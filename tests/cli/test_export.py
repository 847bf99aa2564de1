"""`counterseal calls export`: the operator's own copy of every call."""

import json
import stat
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from ledger.ledger import Ledger
from schemas.decisions import Approval
from tests.api.parked import confirm, lose_answer, park
from tests.cli.conftest import Run


@pytest.fixture
async def approval(ledger: Ledger) -> Approval:
    """A refund whose answer was lost, and that was confirmed by a look."""
    parked = await park(ledger)
    await lose_answer(ledger, parked.request_id)
    await confirm(ledger, parked.request_id)
    return parked


async def exported(run: Run, folder: Path) -> list[dict[str, Any]]:
    """The lines of an export but the last, which says how many there are."""
    file = folder / "calls.jsonl"
    ran = await run("calls", "export", "--out", file)
    assert ran.status == 0, ran.err
    *calls, end = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    assert end == {"record": "end", "calls": len(calls)}
    assert ran.out.strip() == f"{len(calls)} calls"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    return calls


async def test_every_call_comes_with_its_events_in_readable_form(
    run: Run, ledger: Ledger, approval: Approval, tmp_path: Path
) -> None:
    waiting = await park(ledger)
    newest, oldest = await exported(run, tmp_path)
    assert newest["request_id"] == waiting.request_id
    assert (oldest["request_id"], oldest["status"]) == (approval.request_id, "executed")
    assert (oldest["record"], oldest["erased"], oldest["chain"]["holds"]) == ("call", False, True)
    events = oldest["events"]
    assert [event["n"] for event in events] == list(range(1, len(events) + 1))
    assert all(event["previous"] == before["hash"] for before, event in pairwise(events))
    assert events[0]["body"]["call"]["arguments"]["amount_cents"] == 31240
    assert events[-1]["body"]["status"] == "executed"


async def test_an_alert_stands_with_its_call(run: Run, ledger: Ledger, approval: Approval, tmp_path: Path) -> None:
    insert = "INSERT INTO alerts (tenant, request_id, kind, at) VALUES ($1, $2, 'needs_review', now())"
    await ledger.system.execute(insert, approval.tenant, approval.request_id)
    (call,) = await exported(run, tmp_path)
    assert call["alerts"] == ["needs_review"]


async def test_an_erased_customer_keeps_the_chain_and_loses_the_words(
    run: Run, ledger: Ledger, approval: Approval, tmp_path: Path
) -> None:
    await ledger.system.execute("UPDATE data_keys SET wrapped = NULL, destroyed_at = now()")
    (call,) = await exported(run, tmp_path)
    assert (call["erased"], call["chain"]["holds"]) == (True, True)
    assert {event["body"] for event in call["events"]} == {None}


async def test_a_broken_chain_is_said_and_its_bodies_are_not_opened(
    run: Run, ledger: Ledger, approval: Approval, tmp_path: Path
) -> None:
    await ledger.system.execute("ALTER TABLE events DISABLE TRIGGER ALL")
    await ledger.system.execute("UPDATE events SET body = set_byte(body, 20, get_byte(body, 20) # 1) WHERE n = 2")
    (call,) = await exported(run, tmp_path)
    assert call["chain"] == {"holds": False, "problem": "event 2 was altered"}
    assert {event["body"] for event in call["events"]} == {None}


async def test_what_cannot_be_written_leaves_nothing_behind(run: Run, approval: Approval, tmp_path: Path) -> None:
    ran = await run("calls", "export", "--out", tmp_path / "missing" / "calls.jsonl")
    assert ran.status == 1
    assert "cannot be written" in ran.complaint
    assert list(tmp_path.glob("**/*.jsonl")) == []


async def test_a_copy_that_could_not_be_finished_does_not_replace_one(
    run: Run, ledger: Ledger, approval: Approval, tmp_path: Path
) -> None:
    await exported(run, tmp_path)
    before = (tmp_path / "calls.jsonl").read_bytes()
    await ledger.system.execute("UPDATE data_keys SET wrapped = set_byte(wrapped, 20, get_byte(wrapped, 20) # 1)")
    ran = await run("calls", "export", "--out", tmp_path / "calls.jsonl")
    assert ran.status == 1
    assert "master key" in ran.complaint
    assert (tmp_path / "calls.jsonl").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []
