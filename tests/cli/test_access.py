"""Who was given what: each change is an event in the transaction that makes it, and a command tells them."""

from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from ledger.chain import GENESIS, Head, break_in
from ledger.ledger import Ledger
from ledger.streams import access_of, decodings_of
from runtime.cli.chains import event_rows
from schemas.events import HistoryDecoded
from tests.cli.conftest import Run

PASSWORD = "a long example password"
TENANT = "acme"


async def told(run: Run, *arguments: str) -> list[dict[str, Any]]:
    return (await run("report", "access", "--json", *arguments)).json["events"]


async def test_accounts_and_tokens_are_told_with_who_made_them(run: Run, ledger: Ledger) -> None:
    for name in ("ana", "mei"):
        await run("users", "add", name, "--tenant", TENANT, "--role", "finance", typed=f"{PASSWORD}\n")
    issued = (await run("tokens", "issue", "service", "runtime", "--tenant", TENANT, "--owner", "ops", "--json")).json
    await run("tokens", "revoke", issued["token_id"])
    until = (datetime.now(UTC) + timedelta(days=3)).date().isoformat()
    assert (await run("users", "delegate", "ana", "mei", "--last", until, "--reason", "on leave")).status == 0
    assert (await run("users", "undelegate", "ana", "mei")).status == 0
    await run("users", "disable", "mei")
    found = await told(run, "--tenant", TENANT)
    assert [each["type"] for each in found] == [
        "user.added",
        "user.added",
        "token.issued",
        "token.revoked",
        "delegation.made",
        "delegation.ended",
        "user.disabled",
    ]
    assert all(each["body"]["by"].startswith("cli:") for each in found)
    assert found[2]["body"]["token_id"] == found[3]["body"]["token_id"] == issued["token_id"]
    assert (found[2]["body"]["owner"], found[0]["body"]["roles"]) == ("ops", ["finance"])
    said = (await run("report", "access")).out
    assert "on leave" in said
    for secret in (issued["token"], PASSWORD):
        assert secret not in said
    assert await told(run, "--tenant", "other") == []


async def test_what_changed_nothing_is_no_event(run: Run, ledger: Ledger) -> None:
    await ledger.principals.add_user(TENANT, "ana", "Ana Example", PASSWORD, ["finance"])
    assert not await ledger.principals.add_user(TENANT, "ana", "Ana Example", PASSWORD, ["operator"])
    token_id, token = await ledger.principals.issue("service", TENANT, "runtime")
    await ledger.principals.issue("service", TENANT, "runtime", token=token)
    assert await ledger.principals.revoke(token_id)
    assert not await ledger.principals.revoke(token_id)
    assert not await ledger.principals.revoke("tok_none")
    assert await ledger.principals.disable_user("nobody") == []
    assert [each["type"] for each in await told(run)] == ["user.added", "token.issued", "token.revoked"]


async def test_passkeys_are_told_by_a_fingerprint(run: Run, ledger: Ledger) -> None:
    await ledger.principals.add_user(TENANT, "ana", "Ana Example", PASSWORD, ["finance"])
    passkeys = ledger.of(TENANT).passkeys
    assert await passkeys.add(TENANT, "ana", credential_id=b"key", name="laptop", public_key=b"k", sign_count=0)
    assert await passkeys.remove(TENANT, "ana", b"key")
    assert not await passkeys.remove(TENANT, "ana", b"key")
    _, added, removed = await told(run)
    assert (added["type"], removed["type"]) == ("passkey.added", "passkey.removed")
    assert added["body"] == removed["body"]
    assert len(added["body"]["credential"]) == 64


async def test_a_policy_is_published_when_it_is_another_one(run: Run, ledger: Ledger) -> None:
    wanted = [await ledger.policies.begun(version, "{}", by="worker") for version in ("p@1", "p@1", "p@2", "p@1")]
    assert wanted == [True, False, True, True]
    found = await told(run)
    assert [each["body"]["policy_version"] for each in found] == ["p@1", "p@2", "p@1"]
    assert await ledger.system.fetchval("SELECT count(*) FROM policies") == 2


async def test_without_its_event_nothing_is_given(ledger: Ledger) -> None:
    await ledger.principals.issue("service", TENANT, "runtime")
    await ledger.system.execute("ALTER TABLE events ADD CHECK (request_id NOT LIKE 'access/%') NOT VALID")
    with pytest.raises(asyncpg.CheckViolationError):
        await ledger.principals.issue("service", TENANT, "another")
    with pytest.raises(asyncpg.CheckViolationError):
        await ledger.principals.add_user(TENANT, "ana", "Ana Example", PASSWORD, ["finance"])
    assert [row["principal"] for row in await ledger.principals.tokens()] == ["runtime"]
    assert await ledger.principals.users() == []


async def test_the_stream_is_chained(ledger: Ledger) -> None:
    for name in ("one", "two", "three"):
        await ledger.principals.issue("service", TENANT, name)
    rows = await event_rows(ledger, access_of(TENANT))
    assert rows[0].previous == GENESIS
    assert break_in(rows, Head(3, rows[-1].hash)) is None


async def test_whom_histories_were_shown_to_is_told_apart(run: Run, ledger: Ledger) -> None:
    call = f"act_{'5' * 32}"
    shown = HistoryDecoded(
        principal="olga", through="session", namespace="default", payloads=("ab" * 32, "cd" * 32), calls=(call,)
    )
    await ledger.principals.add_user(TENANT, "olga", "Olga Example", PASSWORD, ["operator"])
    await ledger.streams.append(TENANT, decodings_of(TENANT), shown)
    (found,) = await told(run, "--histories")
    assert found["type"] == "history.decoded"
    assert found["body"] == shown.model_dump(mode="json", exclude={"type"})
    said = " ".join((await run("report", "access", "--histories")).out.split())
    assert "olga" in said
    assert "payloads 2" in said
    assert "user.added" not in said
    assert await told(run, "--histories", "--tenant", "other") == []
    assert [each["type"] for each in await told(run)] == ["user.added"]
