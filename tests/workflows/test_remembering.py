"""Temporal's histories know the hashes of events: a ledger that was rewritten does not agree with them."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from temporalio.client import WorkflowHistory

from ledger.exporting import Export
from ledger.histories import compare
from ledger.keys import MasterKey
from runtime.codec import data_converter
from runtime.remembering import remembered
from tests.ledger.tampering import tamper
from tests.service import TEST_KEY, Service

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def _these(*histories: WorkflowHistory) -> AsyncIterator[WorkflowHistory]:
    for each in histories:
        yield each


async def test_a_history_remembers_where_its_calls_events_ended(running: Service, tmp_path: Path) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))
    await started.handle.signal("withdraw")
    record = await running.finish(started)
    histories = _these(await started.handle.fetch_history())
    known = await remembered(histories, data_converter(MasterKey(TEST_KEY)))
    assert {each.request_id for each in known} == {approval.request_id}
    assert max((each.n, each.hash) for each in known) == (record.head.n, record.head.hash.hex())
    await Export(running.core.ledger.system, tmp_path / "as it was").write()
    assert compare(tmp_path / "as it was", known) == []
    database = running.core.settings.database_url.get_secret_value()
    last = f"request_id = '{record.request_id}' AND n = {record.head.n}"
    await tamper(database, f"UPDATE events SET hash = set_bit(hash, 0, 1 - get_bit(hash, 0)) WHERE {last}")
    await Export(running.core.ledger.system, tmp_path / "rewritten").write()
    (rewritten,) = compare(tmp_path / "rewritten", known)
    assert rewritten.kind == "rewritten"
    assert f"event {record.head.n} of {record.request_id}" in rewritten.what
    await tamper(database, f"DELETE FROM events WHERE {last}")
    await Export(running.core.ledger.system, tmp_path / "gone").write()
    assert [each.kind for each in compare(tmp_path / "gone", known)] == ["missing"]


async def test_with_another_key_nothing_is_remembered(running: Service) -> None:
    started, _ = await running.parked(await running.outside.order(50_000))
    await started.handle.signal("withdraw")
    await running.finish(started)
    histories = _these(await started.handle.fetch_history())
    assert await remembered(histories, data_converter(MasterKey(bytes(32)))) == []
