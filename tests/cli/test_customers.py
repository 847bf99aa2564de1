"""`counterseal customers erase`: asks first, refuses what is open, deletes histories before keys."""

from pathlib import Path
from typing import Any

import pytest
from temporalio.service import RPCError, RPCStatusCode

from ledger.ledger import Ledger
from runtime.cli import customers
from schemas.decisions import Approval
from tests.api.parked import park
from tests.cli.conftest import Run
from tests.ledger.refunds import decide


class _Temporal:
    """Stands for Temporal's client: deletes histories, or is away."""

    namespace = "default"

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.unknown: set[str] = set()
        self.away = False
        self.workflow_service = self

    async def delete_workflow_execution(self, request: Any) -> None:
        assert request.namespace == "default"
        if self.away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        if request.workflow_execution.workflow_id in self.unknown:
            raise RPCError("none", RPCStatusCode.NOT_FOUND, b"")
        self.deleted.append(request.workflow_execution.workflow_id)


@pytest.fixture
def temporal(monkeypatch: pytest.MonkeyPatch) -> _Temporal:
    made = _Temporal()

    async def opened(*_: Any) -> _Temporal:
        return made

    monkeypatch.setattr(customers, "open_temporal", opened)
    return made


@pytest.fixture
async def denied(ledger: Ledger) -> Approval:
    """Of a customer whose only call was denied."""
    approval = await park(ledger)
    await decide(ledger, approval, verdict="deny", approver="mei", reason="Ada Example called")
    return approval


async def _erase(run: Run, approval: Approval, *options: str, typed: str = "") -> Any:
    line = ["customers", "erase", approval.customer_id, "--tenant", approval.tenant, "--reason", "asked for"]
    return await run(*line, *options, typed=typed)


async def test_it_asks_and_erases(run: Run, ledger: Ledger, denied: Approval, temporal: _Temporal) -> None:
    for typed in ("", "n\n"):
        ran = await _erase(run, denied, typed=typed)
        assert (ran.status, "Erase 1 calls, 1 approvals" in ran.err) == (130, True), ran.err
    assert (await ledger.calls.read(denied.request_id)).details.call
    assert temporal.deleted == []
    ran = await _erase(run, denied, typed="y\n")
    assert (ran.status, ran.out.splitlines()[-1].strip()) == (0, "erased: 1 calls; 1 histories deleted in Temporal")
    assert temporal.deleted == [(await ledger.calls.recent(tenant=None, status=None, limit=1))[0]["workflow_id"]]
    again = await _erase(run, denied, "--yes")
    assert (again.status, "there is nothing of a customer" in again.complaint) == (1, True)


async def test_commands_show_that_it_was_erased(
    run: Run, ledger: Ledger, denied: Approval, temporal: _Temporal, tmp_path: Path
) -> None:
    assert (await _erase(run, denied, "--yes")).status == 0
    assert "denied (erased)" in (await run("calls", "list")).out
    shown = await run("calls", "show", denied.request_id)
    assert (shown.status, "customer was erased" in shown.out, "hashes holds" in shown.out) == (0, True, True)
    told = (await run("calls", "show", denied.request_id, "--json")).json
    assert (told["erased"], told["tool_version"], told["chain"]["holds"]) == (True, None, True)
    bodies = [each["body"] for each in (await run("calls", "events", denied.request_id, "--json")).json["events"]]
    assert set(bodies) == {None}
    out = tmp_path / "calls.jsonl"
    assert (await run("calls", "export", "--out", out)).status == 0
    assert '"erased":true' in out.read_text()
    said = out.read_text() + shown.out + shown.err
    assert denied.customer_id not in said
    assert "Ada Example" not in said
    for command in (("report", "refunds"), ("report", "approvals"), ("diagnostics", denied.request_id)):
        ran = await run(*command)
        assert "internal error" not in ran.err, command
    ran = await run("decisions", "export", denied.approval_id, "--out", tmp_path / "decisions.json")
    assert (ran.status, "erased" in ran.complaint) == (1, True)


async def test_what_is_open_is_named_and_nothing_is_touched(run: Run, ledger: Ledger, temporal: _Temporal) -> None:
    waiting = await park(ledger)
    ran = await _erase(run, waiting, "--yes")
    assert (ran.status, waiting.request_id in ran.complaint) == (1, True)
    assert temporal.deleted == []
    assert (await ledger.calls.read(waiting.request_id)).status == "pending_approval"


async def test_while_temporal_is_away_nothing_is_erased_unless_histories_may_stay(
    run: Run, ledger: Ledger, denied: Approval, temporal: _Temporal
) -> None:
    temporal.away = True
    ran = await _erase(run, denied, "--yes")
    assert (ran.status, "nothing was erased" in ran.complaint) == (1, True)
    assert (await ledger.calls.read(denied.request_id)).details.call
    ran = await _erase(run, denied, "--yes", "--keep-histories", "--json")
    assert (ran.status, ran.json) == (0, {"calls": 1, "histories_deleted": 0})


async def test_a_history_that_is_gone_already_is_none(
    run: Run, ledger: Ledger, denied: Approval, temporal: _Temporal
) -> None:
    temporal.unknown |= set(await ledger.erasures.workflows(denied.tenant, denied.customer_id))
    ran = await _erase(run, denied, "--yes", "--json")
    assert (ran.status, ran.json) == (0, {"calls": 1, "histories_deleted": 0})


async def test_a_reason_is_needed(run: Run, ledger: Ledger) -> None:
    ran = await run("customers", "erase", "cus_1", "--tenant", "acme", "--reason", " ")
    assert (ran.status, "say why" in ran.err) == (2, True)
