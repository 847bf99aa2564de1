"""`counterseal decisions`: evidence that is written from the ledger, and checked without one."""

import json
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.signing import DecisionSigner, verifying_key_pem
from schemas.canonical import digest
from schemas.decisions import Approval
from schemas.ids import new_approval_id
from schemas.proofs import Proof
from tests.api.parked import park
from tests.cli.conftest import MASTER, Run
from tests.service import human_decision

ACTION: dict[str, Any] = {"tool": "issue_refund", "arguments": {"amount_cents": 31_240}}


async def decided(ledger: Ledger) -> Approval:
    approval = await park(ledger, action=ACTION, action_digest=digest(ACTION))
    decision = human_decision(approval, "approve", proof=Proof(kind="password", at=datetime.now(UTC)))
    token = DecisionSigner(MasterKey(MASTER)).sign(decision)
    await ledger.of(approval.tenant).approvals.decide(decision, token)
    return approval


async def test_what_was_exported_is_checked_without_a_ledger(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval, file, key = await decided(ledger), tmp_path / "decisions.json", tmp_path / "service.pem"
    ran = await run("decisions", "export", approval.approval_id, "--out", file)
    assert (ran.status, ran.out) == (0, "1 decisions\n"), ran.err
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    key.write_text((await run("decisions", "key")).out)
    for name in ("COUNTERSEAL_DATABASE_URL", "COUNTERSEAL_MASTER_KEY_FILE", "COUNTERSEAL_DATA"):
        monkeypatch.delenv(name, raising=False)
    ran = await run("decisions", "verify", file)
    assert ran.status == 0, ran.err
    assert "ana approved it" in ran.out
    assert "arguments.amount_cents: 31240" in ran.out
    assert "entered their password again" in ran.out
    assert (await run("decisions", "verify", file, "--key", key, "--json")).json["holds"] is True
    key.write_bytes(verifying_key_pem(MasterKey(b"1" * 32)))
    ran = await run("decisions", "verify", file, "--key", key)
    assert (ran.status, ran.complaint) == (1, "counterseal: The decision of ana is not signed by the service's key.")
    whole = json.loads(file.read_text())
    # Nothing vouches for the title, so nobody reads it as what was decided.
    file.write_text(json.dumps({**whole, "title": "Refund 0.01 USD"}))
    ran = await run("decisions", "verify", file)
    assert (ran.status, "0.01" in ran.out) == (0, False)
    whole["action"]["arguments"]["amount_cents"] = 1
    file.write_text(json.dumps(whole))
    ran = await run("decisions", "verify", file)
    assert (ran.status, ran.complaint) == (1, "counterseal: The action is not the one that its digest stands for.")
    for content in ("", "[]", "{}", json.dumps({**whole, "more": 1}), "\0"):
        file.write_text(content)
        ran = await run("decisions", "verify", file)
        assert (ran.status, "is not a file of decisions, or was altered" in ran.complaint) == (1, True)
    ran = await run("decisions", "verify", tmp_path / "missing.json")
    assert (ran.status, "cannot be read" in ran.complaint) == (1, True)


async def test_what_cannot_be_exported_is_said(run: Run, ledger: Ledger, tmp_path: Path) -> None:
    file = tmp_path / "decisions.json"
    for name, said in (
        ("nothing", "is no approval's id"),
        (new_approval_id(), "there is no approval"),
        ((await park(ledger)).approval_id, "nobody has decided"),
    ):
        ran = await run("decisions", "export", name, "--out", file)
        assert (ran.status, said in ran.complaint) == (1, True), ran.err
    assert not file.exists()
