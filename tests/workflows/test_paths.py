"""Every path of a call, end to end; with `--record-histories` the histories that CI replays are written anew."""

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest

from runtime.codec import ENCODING
from schemas.calls import ToolCallResult
from tests.bench.actions import cost
from tests.service import Service, until
from tests.workflows.paths import PATHS, names, steps

pytestmark = pytest.mark.asyncio(loop_scope="session")

# Those of earlier versions are kept: calls that began under them may still be open.
HISTORIES = Path(__file__).parent / "histories" / version("counterseal")


@pytest.mark.parametrize("name", PATHS)
async def test_a_path_ends_as_it_should_and_costs_what_it_should(
    running: Service, name: str, request: pytest.FixtureRequest
) -> None:
    path = PATHS[name]
    started = await path.walk(running)
    record = await running.finish(started)
    assert (record.status, record.code) == (path.status, path.code)
    assert await running.event_types(started) == path.ledger.split()
    if record.details.effect is not None:
        assert await running.outside.sends(record) == (path.sends or path.effects)
    assert record.reply().status == path.status

    expected = ToolCallResult(request_id=record.request_id, status=path.status, code=path.code)
    assert await started.handle.result() == expected.model_dump()
    history = await started.handle.fetch_history()
    if request.config.getoption("--record-histories", default=False):
        content = json.dumps(history.to_json_dict(), indent=1, sort_keys=True)
        HISTORIES.mkdir(exist_ok=True)
        (HISTORIES / f"{name}.json").write_text(content + "\n")
    assert cost(history.events) == (path.history, path.actions), (
        f"{' '.join(names(history.events))}\nTemporal keeps every event and Temporal Cloud bills every action: what is"
        " added needs a reason, and its figure in tests/workflows/paths.py and docs/sizing.md"
    )
    codec = running.core.temporal.data_converter.payload_codec
    assert codec is not None
    for stored in steps(history.events):
        assert stored.metadata["encoding"] == ENCODING
        (summary,) = await codec.decode([stored])
        # Words alone: no number, no address, nothing that was put in.
        assert re.fullmatch(r"[A-Z][A-Za-z ,]+", json.loads(summary.data)), summary


async def test_search_attributes_say_where_a_parked_call_stands(running: Service) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))

    async def attributes(status: str) -> dict[str, object]:
        """The ledger has it a moment before Temporal does."""

        async def look() -> dict[str, object] | None:
            described = await started.handle.describe()
            found = {pair.key.name: pair.value for pair in described.typed_search_attributes}
            return found if found.get("CallStatus") == status else None

        return await until(look)

    assert (await attributes("pending_approval")).items() >= {
        "ToolName": "issue_refund",
        "AgentRunId": started.request.run_id,
        "Decision": "hold",
        "PolicyVersion": approval.policy_version,
        "ApprovalId": approval.approval_id,
    }.items()
    await started.handle.signal("withdraw")
    await attributes("cancelled")


@pytest.mark.parametrize("name", ["free", "refused", "denied", "lost_answer"])
async def test_a_history_shows_nothing_of_what_was_said(running: Service, name: str) -> None:
    started = await PATHS[name].walk(running)
    await running.finish(started)
    raw = (await started.handle.fetch_history()).to_json()
    said = [str(started.request.arguments[name]) for name in ("order_id", "reason_code", "idempotency_key")]
    for secret in ("amount_cents", "Ada Example", *said):
        assert secret not in raw
