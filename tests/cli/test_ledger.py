"""`counterseal ledger`: exported, verified and proven from the command line."""

import json
from pathlib import Path

import pytest

from ledger.checkpoints import Checkpoint
from ledger.ledger import Ledger
from tests.api.parked import park
from tests.cli.conftest import Run
from tests.ledger.tampering import tamper


@pytest.fixture
async def request_id(ledger: Ledger) -> str:
    """A call whose events are sealed, in two seals."""
    parked = await park(ledger)
    await ledger.seals.seal()
    await park(ledger)
    await ledger.seals.seal()
    return parked.request_id


async def test_an_export_is_verified_without_the_ledger(
    run: Run, ledger: Ledger, request_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    exported = await run("ledger", "export", "--out", tmp_path / "x")
    assert (exported.status, exported.err) == (0, "")
    assert "in 2 seals, 0 not sealed yet" in exported.out
    kept = await run("ledger", "checkpoint", "--out", tmp_path / "kept.txt")
    assert kept.status == 0
    monkeypatch.delenv("COUNTERSEAL_DATABASE_URL")
    monkeypatch.delenv("COUNTERSEAL_MASTER_KEY_FILE")
    held = await run("ledger", "verify", "--export", tmp_path / "x", "--checkpoint", tmp_path / "kept.txt")
    assert (held.status, held.err) == (0, "")
    assert "The ledger holds" in held.out
    assert "It goes on from the checkpoint of" in held.out
    without = await run("ledger", "verify", "--export", tmp_path / "x")
    assert "cannot show that nothing newer is lost" in without.out


async def test_what_was_done_to_the_ledger_is_said(
    run: Run, ledger: Ledger, settings: str, request_id: str, tmp_path: Path
) -> None:
    await run("ledger", "checkpoint", "--out", tmp_path / "kept.txt")
    await tamper(settings, f"UPDATE events SET tenant = 'globex' WHERE request_id = '{request_id}' AND n = 2")
    found = await run("ledger", "verify", "--checkpoint", tmp_path / "kept.txt")
    assert found.status == 16
    assert f"swapped: event 2 of {request_id}: its tenant is 'globex' and was 'acme'" in found.out
    said = await run("ledger", "verify", "--json")
    assert said.status == 16
    assert said.json["holds"] is False
    assert [each["kind"] for each in said.json["findings"]] == ["swapped"]


async def test_an_older_copy_is_told_by_the_kept_checkpoints(
    run: Run, ledger: Ledger, settings: str, request_id: str, tmp_path: Path
) -> None:
    last = await ledger.seals.last()
    assert last is not None
    lines = tmp_path / "checkpoints.jsonl"
    lines.write_text("".join(json.dumps({"checkpoint": each}) + "\n" for each in ("older", last.checkpoint)))
    await tamper(
        settings,
        "DELETE FROM events WHERE id > (SELECT size FROM seals WHERE number = 1)",
        "DELETE FROM seals WHERE number = 2",
    )
    assert (await run("ledger", "verify", "--checkpoint", lines)).status == 18
    assert (await run("ledger", "verify")).status == 0


async def test_an_event_is_proven_with_a_key_alone(
    run: Run, ledger: Ledger, request_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (key,) = await ledger.seals.keys()
    first = await ledger.seals.read(1)
    assert first is not None
    (tmp_path / "first.txt").write_text(first.checkpoint)
    assert (await run("ledger", "prove", request_id, "2", "--out", tmp_path / "event.json")).status == 0
    assert (
        await run("ledger", "prove", "--since", tmp_path / "first.txt", "--out", tmp_path / "since.json")
    ).status == 0
    monkeypatch.delenv("COUNTERSEAL_DATABASE_URL")
    for name in ("event.json", "since.json"):
        held = await run("ledger", "verify", "--proof", tmp_path / name, "--key", str(key))
        assert held.out == "The proof holds.\n"
    event = json.loads((tmp_path / "event.json").read_text())
    assert json.loads(event["header"])["request_id"] == request_id
    event["header"] = event["header"].replace('"n":2', '"n":3')
    (tmp_path / "event.json").write_text(json.dumps(event))
    refused = await run("ledger", "verify", "--proof", tmp_path / "event.json", "--key", str(key))
    assert (refused.status, refused.complaint) == (1, "counterseal: the proof does not hold")


async def test_verifying_goes_on_across_a_change_of_the_key(run: Run, ledger: Ledger, request_id: str) -> None:
    rotated = await run("ledger", "rotate-key")
    assert "Seal 3 is the last of the old key" in rotated.out
    await park(ledger)
    await ledger.seals.seal()
    held = await run("ledger", "verify", "--json")
    assert (held.status, held.json["seals"]) == (0, 4)
    old, new = await ledger.seals.keys()
    assert Checkpoint.parse(held.json["checkpoint"]).number == 4
    assert (await run("ledger", "verify", "--key", str(old))).status == 0
    assert (await run("ledger", "verify", "--key", str(new))).status == 17


@pytest.mark.parametrize(
    ("arguments", "status"),
    [
        (("verify", "--export", "nowhere"), 1),
        (("verify", "--checkpoint", "nowhere"), 1),
        (("verify", "--key", "x"), 1),
        (("verify", "--proof", "nowhere"), 2),
        (("prove",), 2),
        (("prove", "act_0", "1"), 1),
        (("checkpoint",), 1),
        (("export",), 2),
    ],
)
async def test_what_cannot_be_done_is_one_line(
    run: Run, ledger: Ledger, arguments: tuple[str, ...], status: int
) -> None:
    ran = await run("ledger", *arguments)
    assert ran.status == status
    assert ran.complaint.startswith("counterseal: ")


async def test_nothing_is_written_into_a_folder_of_something_else(run: Run, ledger: Ledger, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_text("mine")
    refused = await run("ledger", "export", "--out", tmp_path)
    assert (refused.status, "is not empty and holds no export" in refused.complaint) == (1, True)


async def test_histories_are_compared_where_they_are_given(run: Run, ledger: Ledger, request_id: str) -> None:
    recorded = Path(__file__).parents[1] / "workflows" / "histories" / "0.1.0" / "free.json"
    held = await run("ledger", "verify", "--history", recorded)
    assert (held.status, held.err) == (0, "")
    refused = await run("ledger", "verify", "--history", Path(__file__))
    assert (refused.status, "not the JSON of a history" in refused.complaint) == (1, True)
