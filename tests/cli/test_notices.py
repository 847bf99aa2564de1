"""`counterseal notices`: what was told, sending again, and trying a channel out."""

import json
from pathlib import Path
from typing import Any

import pytest

from ledger.ledger import Ledger
from tests.api.parked import park
from tests.cli.conftest import Run
from tests.notices.receivers import SECRET, receiving


def notices_file(folder: Path, **channels: dict[str, Any]) -> Path:
    file = folder / "notices.yaml"
    file.write_text(json.dumps({"channels": channels, "routes": []}))
    return file


async def lost(ledger: Ledger) -> str:
    """The id of a notice that was given up."""
    await park(ledger)
    await ledger.notices.route(lambda due: ["chat"] if due.topic == "approval_requested" else [])
    (notice_id,) = await ledger.notices.unstarted(0)
    await ledger.notices.failed(notice_id, "refused")
    await ledger.notices.give_up(notice_id)
    return notice_id


async def test_what_was_not_told_is_listed_and_sent_again(run: Run, ledger: Ledger) -> None:
    notice_id = await lost(ledger)
    listed = await run("notices", "list", "--undelivered")
    assert listed.status == 0
    (line,) = [line for line in listed.out.splitlines() if notice_id in line]
    assert "approval_requested" in line
    assert "refused" in line
    (found,) = (await run("notices", "list", "--json")).json["notices"]
    assert (found["notice_id"], found["channel"], found["state"]) == (notice_id, "chat", "undelivered")
    assert (await run("notices", "list", "--tenant", "globex", "--json")).json == {"notices": []}
    assert (await run("notices", "retry", notice_id)).status == 0
    assert await ledger.notices.unstarted(60) == [notice_id]
    assert (await run("notices", "list", "--undelivered", "--json")).json == {"notices": []}
    again = await run("notices", "retry", notice_id)
    assert (again.status, again.complaint) == (1, "counterseal: there is no such notice that was given up")
    assert (await run("notices", "retry", "ntc_1")).status == 2


async def test_a_channel_is_tried_out(
    run: Run, ledger: Ledger, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with receiving() as chat:
        settings = {"kind": "webhook", "url": chat.url, "secret": "env:CHAT_SECRET", "private": True}
        monkeypatch.setenv("COUNTERSEAL_NOTICES_FILE", str(notices_file(tmp_path, chat=settings)))
        missing = await run("notices", "test", "chat")
        assert (missing.status, missing.complaint) == (1, "counterseal: chat did not take it: no credential")
        monkeypatch.setenv("CHAT_SECRET", SECRET)
        tried = await run("notices", "test", "chat")
        assert (tried.status, tried.out) == (0, "chat took it.\n"), tried.err
        assert chat.requests[0].verified()["type"] == "test"
        chat.statuses = [404]
        failed = await run("notices", "test", "chat")
        assert (failed.status, failed.complaint) == (1, "counterseal: chat did not take it: refused")
        unknown = await run("notices", "test", "pager")
        assert unknown.complaint == "counterseal: there is no channel pager in the file; it has chat"
    assert len(chat.requests) == 2


async def test_a_credential_of_the_vault_and_the_vault_locked(run: Run, ledger: Ledger, tmp_path: Path) -> None:
    async with receiving() as chat:
        settings = {"kind": "webhook", "url": chat.url, "secret": "vault", "private": True}
        file = notices_file(tmp_path, chat=settings)
        assert (await run("vault", "put", "channel:chat", typed=SECRET)).status == 0
        assert (await run("vault", "put", "channel:No Name", typed=SECRET)).status == 2
        assert (await run("notices", "test", "chat", "--file", file)).status == 0
        assert chat.requests[0].verified()
        await ledger.switches.turn_off("*", "vault", by="olga", reason="an exercise")
        locked = await run("notices", "test", "chat", "--file", file)
        assert (locked.status, locked.complaint) == (1, "counterseal: chat did not take it: vault locked")


async def test_a_file_that_cannot_be_used_is_one_line(run: Run, settings: str, tmp_path: Path) -> None:
    file = notices_file(tmp_path, chat={"kind": "webhook", "url": "https://chat.example.com"})
    ran = await run("notices", "test", "chat", "--file", file)
    assert (ran.status, ran.complaint) == (1, f"counterseal: {file}: line 1: channels / chat / secret: is missing")
    local = {"kind": "webhook", "url": "https://127.0.0.1:9", "secret": "vault"}
    ran = await run("notices", "test", "chat", "--file", notices_file(tmp_path, chat=local))
    assert ran.status == 1
    assert "a base URL must have a name" in ran.complaint
    assert (await run("notices", "test", "chat")).status == 2, "which file is to be said"
