"""Recorded histories of every path, of this version and of all before it, replay with today's code; and the check bites
when the code changes.

To record this version's anew: `pytest tests/workflows --record-histories`. Those of a version that was released stay.
"""

import asyncio
import base64
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from importlib.metadata import version
from pathlib import Path

import pytest
from temporalio import workflow
from temporalio.client import WorkflowHistory

from ledger.keys import MasterKey, RootKey
from runtime.cli import keys
from runtime.cli.main import run
from runtime.codec import data_converter
from runtime.replaying import BadHistoryError, parse_history, replay
from schemas.calls import ToolCallInput
from tests.service import TEST_KEY, Service, until
from tests.workflows.asks_the_clock import AsksTheClock
from tests.workflows.paths import PATHS

FOLDER = Path(__file__).parent / "histories"
FILES = sorted(FOLDER.glob("*/*.json"))
NEWEST = FOLDER / version("counterseal")
CONVERTER = data_converter(MasterKey(TEST_KEY))


async def _one(file: Path) -> AsyncIterator[WorkflowHistory]:
    yield parse_history(file.stem, file.read_text())


@workflow.defn(name="ToolCall", sandboxed=False)
class _WaitsFirst:
    """`ToolCall` as somebody might change it: it now waits a moment before it admits."""

    @workflow.run
    async def run(self, request: ToolCallInput) -> None:
        await workflow.sleep(timedelta(seconds=1))


@workflow.defn(name="ToolCall", sandboxed=False)
class _AdmitsByAnotherName:
    @workflow.run
    async def run(self, request: ToolCallInput) -> None:
        await workflow.execute_local_activity("admit_call", request, start_to_close_timeout=timedelta(seconds=60))


def test_every_path_is_recorded() -> None:
    assert {file.stem for file in NEWEST.glob("*.json")} == set(PATHS)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}-{file.stem}")
async def test_a_recorded_history_replays(file: Path) -> None:
    (replayed,) = [each async for each in replay(_one(file), CONVERTER)]
    assert replayed.problem is None
    assert replayed.events > 5


@pytest.mark.parametrize("changed", [_WaitsFirst, _AdmitsByAnotherName])
async def test_changed_code_parts_from_every_history(changed: type) -> None:
    for file in FILES:
        (replayed,) = [each async for each in replay(_one(file), CONVERTER, workflows=[changed])]
        assert replayed.problem is not None, file.stem
        assert replayed.problem.startswith("event 5, MARKER_RECORDED: ")
        assert replayed.problem.endswith(" (TMPRL1100)")


async def test_code_that_is_not_deterministic_is_found() -> None:
    """Production runs workflow code without the sandbox: here is where it has to show."""
    (replayed,) = [each async for each in replay(_one(FILES[0]), CONVERTER, workflows=[AsksTheClock])]
    # Before anything that it does differs from the history.
    assert replayed.problem == "event 4, WORKFLOW_TASK_COMPLETED: the workflow's code raised RuntimeError"


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"events": []}', '{"events": [{}]}', '{"events": "all"}', "\0"])
def test_what_is_no_history_is_refused(content: str) -> None:
    with pytest.raises(BadHistoryError):
        parse_history("some", content)


@pytest.fixture
def key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "master.key"
    file.write_text(base64.b64encode(TEST_KEY).decode())
    monkeypatch.setenv("COUNTERSEAL_MASTER_KEY_FILE", str(file))
    return file


def test_the_command_replays_files(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["replay", "--history", *map(str, FILES)]) == 0
    out = capsys.readouterr().out
    assert out.count("ok ") == len(FILES)
    assert f"{len(FILES)} histories replayed, 0 parted" in out


def test_the_command_names_where_a_history_parts(key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    history = json.loads((NEWEST / "approved_elsewhere.json").read_text())
    for event in history["events"]:
        if scheduled := event.get("activityTaskScheduledEventAttributes"):
            scheduled["activityType"]["name"] = "execute_twice"
    altered = tmp_path / "altered.json"
    altered.write_text(json.dumps(history))
    assert run(["replay", "--json", str(altered), str(FILES[0])]) == 1
    first, second = json.loads(capsys.readouterr().out)["histories"]
    assert first["problem"] == (
        "event 13, ACTIVITY_TASK_SCHEDULED: Activity type of scheduled event 'execute_twice' does not match"
        " activity type of activity command 'execute' (TMPRL1100)"
    )
    assert second["problem"] is None
    assert run(["replay", str(altered)]) == 1
    assert "PARTED" in capsys.readouterr().out


def test_the_command_says_when_the_key_is_another(key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key.write_text(base64.b64encode(bytes(32)).decode())
    assert run(["replay", str(FILES[0])]) == 1
    assert "encrypted with another key" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["missing.json", "empty.json"])
def test_the_command_refuses_what_is_no_history(
    key: Path, tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.json").write_text("{}")
    assert run(["replay", str(tmp_path / name)]) == 1
    error = capsys.readouterr().err
    assert len(error.splitlines()) == 1
    assert name in error


@pytest.mark.asyncio(loop_scope="session")
async def test_the_command_replays_live_histories_parked_ones_too(
    running: Service,
    key: Path,
    temporal_server: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", temporal_server)
    started, _ = await running.parked(await running.outside.order(50_000))
    query = f"WorkflowId = '{started.handle.id}'"

    async def listed() -> bool | None:
        return True if [each async for each in running.temporal.list_workflows(query)] else None

    await until(listed)
    assert await asyncio.to_thread(run, ["replay", "--query", query, "--limit", "5", "--json"]) == 0
    (replayed,) = json.loads(capsys.readouterr().out)["histories"]
    assert replayed["workflow_id"] == started.handle.id
    assert replayed["problem"] is None
    assert await asyncio.to_thread(run, ["replay", "--query", "no filter"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1
    await started.handle.signal("withdraw")
    await running.finish(started)
    # The same histories say which keys they need.
    needed = await keys._workflows(MasterKey(b"n" * 32, TEST_KEY), None, query)
    assert needed[RootKey(TEST_KEY).key_id] >= 1
    assert needed[RootKey(b"n" * 32).key_id] == 0
