"""`counterseal diagnostics`, and how long what it shows is kept."""

import getpass
from datetime import UTC, datetime

import pytest

from ledger.ledger import Ledger
from runtime.healing import Healer
from schemas.codes import Code
from schemas.diagnostics import BOUNDARIES, Diagnostic, Mark, RawException
from schemas.events import DiagnosticOpened
from schemas.ids import new_request_id
from tests.cli.conftest import Run, ledger, run, settings
from tools.catalog import Catalog

__all__ = ["ledger", "run", "settings"]

OPENED = DiagnosticOpened(principal="olga", through="page")


async def kept(ledger: Ledger, request_id: str | None = None) -> str:
    told = Diagnostic(
        request_id=request_id or new_request_id(),
        step="admit",
        began_at=datetime(2026, 11, 29, 12, 0, tzinfo=UTC),
        elapsed_ms=12,
        status="refused",
        code=Code.NOT_REFUNDABLE,
        tool="issue_refund",
        marks=(Mark(name="input_validated", after_ms=2),),
        failure=RawException(type="example.Bug", text="\x1b[2Jgone", traceback="Traceback\n\x1b[2Jgone"),
    )
    await ledger.diagnostics.store(told, "acme")
    return told.request_id


async def test_it_tells_the_account_and_records_who_read_it(run: Run, ledger: Ledger) -> None:
    request_id = await kept(ledger)
    ran = await run("diagnostics", request_id)
    assert ran.status == 0
    told = " ".join(ran.out.split())
    assert "issue_refund: deciding the call – refused (NOT_REFUNDABLE)" in told
    assert "✓ Input validated after 2 ms" in told
    assert "– Bytes sent not reached" in told
    assert "It was not authorised to change anything" in told
    assert "\x1b" not in ran.out
    assert "\\x1b[2Jgone" in ran.out
    ((row, event),) = await ledger.calls.events(request_id)
    assert event == DiagnosticOpened(principal=getpass.getuser(), through="command_line")
    assert abs((datetime.now(UTC) - row.at).total_seconds()) < 60


async def test_as_json_it_has_everything(run: Run, ledger: Ledger) -> None:
    request_id = await kept(ledger)
    await kept(ledger, request_id)
    shown = (await run("diagnostics", request_id, "--json")).json
    first, second = shown["diagnostics"]
    assert first == second
    assert first["failure"]["text"] == "\x1b[2Jgone"
    assert list(first["boundaries"]) == list(BOUNDARIES)
    assert first["boundaries"]["input_validated"] == 2
    assert first["boundaries"]["bytes_sent"] is None
    assert "Its input was valid." in first["account"]


async def test_what_there_is_not_is_one_line(run: Run, ledger: Ledger) -> None:
    ran = await run("diagnostics", "act_" + "0" * 32)
    assert ran.status == 1
    assert "nothing is kept of act_000" in ran.complaint


@pytest.mark.parametrize("surplus", [0, 600])
async def test_what_is_old_enough_is_deleted_and_nothing_else(ledger: Ledger, surplus: int) -> None:
    old, young = await kept(ledger), await kept(ledger)
    await ledger.system.execute("UPDATE diagnostics SET at = now() - interval '31 days' WHERE request_id = $1", old)
    await ledger.system.execute(
        "INSERT INTO diagnostics (request_id, tenant, at, key_id, body)"
        " SELECT 'act_old', 'acme', now() - interval '40 days', '', '' FROM generate_series(1, $1)",
        surplus,
    )
    # The rows that were made last are the oldest here; ids and times go together in a ledger that nobody edits.
    await ledger.system.execute("UPDATE diagnostics SET id = DEFAULT WHERE request_id = $1", young)
    healer = Healer(ledger, None, Catalog.load(), "unused", public_url="http://counterseal.test", diagnostics_days=30)  # pyright: ignore[reportArgumentType]
    assert await healer.prune() == surplus + 1
    assert await ledger.diagnostics.open(old, OPENED, tenant=None) == []
    assert len(await ledger.diagnostics.open(young, OPENED, tenant=None)) == 1
