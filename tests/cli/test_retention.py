"""`counterseal ledger retention`; and what rotation, erasure and pruning leave verifies as one ledger."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ledger.keys import MasterKey
from ledger.ledger import Ledger
from runtime.stack.postgres import Postgres
from tests.cli.conftest import MASTER, Run
from tests.ledger.refunds import decide, new_binding, open_ledger, parked
from tests.ledger.stopped_clock import StoppedClock


async def test_rules_are_set_listed_and_taken_back(run: Run, ledger: Ledger) -> None:
    ran = await run("ledger", "retention")
    assert (ran.status, ran.out) == (0, "Everything is kept for ever.\n")
    assert (await run("ledger", "retention", "call", "--days", "2555")).status == 0
    assert (await run("ledger", "retention", "call.settled", "--days", "30")).status == 0
    ran = await run("ledger", "retention", "call", "--days", "400", "--json")
    assert [(each["event_class"], each["keep_days"]) for each in ran.json["retention"]] == [
        ("call", 400),
        ("call.settled", 30),
    ]
    assert all(each["set_by"] and each["set_at"] for each in ran.json["retention"])
    assert "call.settled" in (await run("ledger", "retention")).out
    for name in ("call", "call.settled", "call"):
        assert (await run("ledger", "retention", name, "--for-ever")).status == 0
    assert (await run("ledger", "retention", "--json")).json == {"retention": []}


@pytest.mark.parametrize(
    "arguments",
    [
        ("call",),
        ("--days", "3"),
        ("--for-ever",),
        ("call", "--days", "3", "--for-ever"),
        ("nothing", "--days", "3"),
        ("call.nothing", "--days", "3"),
        ("call", "--days", "0"),
        ("call", "--days", "36501"),
    ],
)
async def test_what_is_no_rule_is_wrong_usage(run: Run, ledger: Ledger, arguments: tuple[str, ...]) -> None:
    assert (await run("ledger", "retention", *arguments)).status == 2
    assert (await run("ledger", "retention", "--json")).json == {"retention": []}


async def test_the_service_itself_may_not(run: Run, ledger: Ledger, settings: str, postgres_server: Postgres) -> None:
    service = postgres_server.service_url(settings.rpartition("/")[2])
    ran = await run("ledger", "retention", "call", "--days", "3", "--database-url", service)
    assert (ran.status, "only the owner" in ran.complaint) == (1, True)
    assert (await run("ledger", "retention", "--database-url", service)).status == 0


async def test_shortening_asks_and_all_that_is_left_verifies(run: Run, settings: str, tmp_path: Path) -> None:
    """One ledger over a changed master key, a changed data key, an erasure, and pruning."""
    clock = await StoppedClock.install(settings)
    await clock.set(datetime.now(UTC) - timedelta(days=40))
    async with open_ledger(settings) as opened:
        ledger = Ledger.over(opened.database, MasterKey(MASTER))
        bindings = [new_binding(tenant="acme", customer_id=f"cus_{n}") for n in range(3)]
        calls = [await parked(ledger, binding=each) for each in bindings]
        for each in calls:
            await decide(ledger, each, verdict="deny", reason="no")
        assert await ledger.seals.seal()
        await clock.set(datetime.now(UTC))
        new = base64.b64encode(b"n" * 32).decode()
        (tmp_path / "master.key").write_text(f"{new}\n{base64.b64encode(MASTER).decode()}")
        assert (await run("keys", "rewrap")).status == 0
        (tmp_path / "master.key").write_text(new)
        ledger = Ledger.over(opened.database, MasterKey(b"n" * 32))
        async with ledger.system.acquire() as connection:
            assert await ledger.keys.renew(connection, calls[0].tenant, "cus_0")
        assert await ledger.erasures.erase(calls[1].tenant, "cus_1", by="olga", reason="asked for") == 1
        ran = await run("ledger", "retention", "call.proposed", "--days", "30", typed="n\n")
        assert (ran.status, "What 3 events say" in ran.err) == (130, True)
        assert await ledger.pruner.prune() == 0
        assert (await run("ledger", "retention", "call.proposed", "--days", "30", typed="y\n")).status == 0
        assert await ledger.pruner.prune() == 3
        assert await ledger.seals.seal()
        for each in calls:
            shown = await run("calls", "show", each.request_id)
            assert (shown.status, "hashes holds" in shown.out) == (0, True), shown.out
        ran = await run("ledger", "verify")
        assert ran.status == 0, ran.out + ran.err
        assert (await run("ledger", "export", "--out", tmp_path / "audit")).status == 0
        ran = await run("ledger", "verify", "--export", tmp_path / "audit")
        assert ran.status == 0, ran.out + ran.err
        # What was pruned is part of what is verified.
        await ledger.system.execute("ALTER TABLE events DISABLE TRIGGER USER")
        await ledger.system.execute("UPDATE events SET body_hash = sha256('another') WHERE body IS NULL AND n = 1")
        assert (await run("ledger", "verify")).status != 0
    await clock.close()
