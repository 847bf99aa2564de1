"""The switches in the ledger: who turned what and why, whom they cover, and that they work when nothing else does."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest

from api.reach import NotYoursError, reach_of
from ledger.chain import GENESIS, EventRow, event_hash
from ledger.database import connect
from ledger.ledger import Ledger
from ledger.queries import load
from ledger.switches import Covered, Reach, stream_of
from policy.model import Policy
from schemas.codes import Code
from schemas.events import SwitchChanged
from schemas.switches import EVERYONE, PERMIT, Switch, code_of, of_call, parse
from tests.ledger.refunds import CATALOG, MASTER, Refund, new_binding, open_ledger, parked

OFF = Code.CAPABILITY_DISABLED
ALL = "class:money_movement"
_EVENTS_OF = load("calls")["events_of"]


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are acknowledged without a pause, where that is not what is looked at."""
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))


@pytest.fixture
async def other(database: str) -> AsyncIterator[Ledger]:
    """Another process."""
    async with open_ledger(database) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "switch"),
    [
        ("all", Switch("all")),
        ("vault", Switch("vault")),
        ("tenant:acme", Switch("tenant", "acme")),
        ("tool:issue_refund", Switch("tool", "issue_refund")),
        ("class:money_movement", Switch("class", "money_movement")),
        ("agent:support:bot", Switch("agent", "support:bot")),
        ("run:run_1", Switch("run", "run_1")),
    ],
)
def test_a_switch_is_named_by_what_it_covers(name: str, switch: Switch) -> None:
    assert parse(name) == switch
    assert str(switch) == name


@pytest.mark.parametrize("name", ["", "All", "all:", "vault:x", "tool:", "tool: x", "class:money", "queue:a", "*"])
def test_what_is_no_switch_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"a switch is|there is no class"):
        parse(name)


def test_only_tools_with_a_credential_stop_with_the_vault() -> None:
    binding = new_binding()
    assert "vault" in of_call(binding, "t", ["credential_use"])
    assert "vault" not in of_call(binding, "t", ["read_private"])
    assert code_of("vault") is Code.VAULT_LOCKED
    assert {code_of(name) for name in of_call(binding, "t", ["read_private"])} == {OFF}


def test_a_tenant_reaches_nobody_else() -> None:
    with pytest.raises(NotYoursError):
        reach_of(Switch("tenant", "globex"), "acme", CATALOG)
    assert reach_of(Switch("tenant", "acme"), "acme", CATALOG) == Reach(tenant="acme")
    assert reach_of(Switch("tenant", "globex"), EVERYONE, CATALOG) == Reach(tenant="globex")
    for name in ("all", "tool:issue_refund", ALL, "agent:a", "run:r", "vault"):
        assert reach_of(parse(name), "acme", CATALOG).tenant == "acme"
        assert reach_of(parse(name), EVERYONE, CATALOG).tenant is None


async def _changes(ledger: Ledger, tenant: str) -> list[SwitchChanged]:
    if not await ledger.system.fetch(_EVENTS_OF, stream_of(tenant)):
        return []
    events = [event for _, event in await ledger.calls.events(stream_of(tenant))]
    assert all(isinstance(event, SwitchChanged) for event in events)
    return [event for event in events if isinstance(event, SwitchChanged)]


async def test_every_change_is_an_event_with_who_and_why_and_the_chain_holds(
    ledger: Ledger, other: Ledger, at_once: None
) -> None:
    tenant = new_binding().tenant
    turns: list[tuple[Ledger, str]] = [(ledger, ALL), (other, "vault"), (ledger, "agent:support-bot")]
    await asyncio.gather(
        *(
            where.switches.turn_off(tenant, name, by=f"olga {n}", reason=f"because {n}", deadlines="pause")
            for n, (where, name) in enumerate(turns)
        )
    )
    assert await other.switches.turn_on(tenant, ALL, lambda *_: Reach(tenant=tenant), by="otto", reason="it is over")
    changes = await _changes(ledger, tenant)
    assert {(each.switch, each.by, each.reason, each.deadlines) for each in changes[:3]} == {
        (name, f"olga {n}", f"because {n}", "pause") for n, (_, name) in enumerate(turns)
    }
    assert all(each.off for each in changes[:3])
    assert (changes[3].switch, changes[3].off, changes[3].by, changes[3].reason) == (ALL, False, "otto", "it is over")
    assert len(changes) == 4
    previous = GENESIS
    for n, found in enumerate(await ledger.system.fetch(_EVENTS_OF, stream_of(tenant)), start=1):
        row = EventRow.of(found)
        assert (row.n, row.tenant, row.previous, row.hash) == (n, tenant, previous, event_hash(row))
        assert row.body is not None
        assert b"because" not in row.body
        previous = row.hash
    assert await _changes(ledger, EVERYONE) == []


async def test_a_change_that_fails_halfway_is_none(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is off is always recorded, and what is recorded is off."""

    async def breaks(*_: Any, **__: Any) -> None:
        raise LookupError

    tenant = new_binding().tenant
    with monkeypatch.context() as patch:
        patch.setattr("ledger.switches.append", breaks)
        with pytest.raises(LookupError):
            await ledger.switches.turn_off(tenant, ALL, by="olga", reason="an example")
    assert await ledger.switches.off(tenant) == []


async def test_turning_on_what_is_on_says_so_and_records_nothing(ledger: Ledger) -> None:
    tenant = new_binding().tenant
    assert not await ledger.switches.turn_on(
        tenant, ALL, lambda *_: Reach(tenant=tenant), by="olga", reason="to be sure"
    )
    assert await _changes(ledger, tenant) == []


async def test_everyones_stop_each_tenant_and_stay_off_when_a_tenant_turns_its_own(
    ledger: Ledger, at_once: None
) -> None:
    mine, others = new_binding(), new_binding()
    await ledger.switches.turn_off(EVERYONE, ALL, by="olga", reason="an example")
    await ledger.switches.turn_off(mine.tenant, ALL, by="olga", reason="an example")
    for binding in (mine, others):
        assert (await Refund(1_000, binding=binding).admit(ledger)).code is OFF
    assert [each.tenant for each in await ledger.switches.off(mine.tenant)] == [EVERYONE, mine.tenant]
    assert [each.tenant for each in await ledger.switches.off(others.tenant)] == [EVERYONE]
    assert [each.tenant for each in await ledger.switches.off(None)] == [EVERYONE, mine.tenant]
    assert await ledger.switches.turn_on(
        mine.tenant, ALL, lambda *_: Reach(tenant=mine.tenant), by="olga", reason="over"
    )
    assert (await Refund(1_000, binding=mine).admit(ledger)).code is OFF
    assert await ledger.switches.turn_on(EVERYONE, ALL, lambda *_: Reach(), by="olga", reason="over")
    assert (await Refund(1_000, binding=mine).admit(ledger)).code is Code.IN_PROGRESS


async def test_a_change_is_read_in_another_process_before_it_is_acknowledged(ledger: Ledger, other: Ledger) -> None:
    binding = new_binding()
    turning = asyncio.ensure_future(ledger.switches.turn_off(binding.tenant, ALL, by="olga", reason="an example"))
    begun = time.monotonic()
    while await other.of(binding.tenant).permits.first_off(binding.tenant, [ALL]) is None:
        await asyncio.sleep(0.01)
    assert not turning.done()
    assert (await Refund(1_000, binding=binding).admit(other)).code is OFF
    await turning
    assert PERMIT.total_seconds() <= time.monotonic() - begun < PERMIT.total_seconds() + 1


async def test_they_work_when_every_other_connection_is_taken(database: str) -> None:
    opened = await connect(database, maximum=4)
    ledger, tenant = Ledger.over(opened, MASTER), new_binding().tenant
    try:
        async with AsyncExitStack() as taken:
            await taken.enter_async_context(opened.system.acquire())
            for _ in range(3):
                await taken.enter_async_context(opened.tenant(tenant).acquire())
            for pool in (opened.system, opened.tenant(tenant)):
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(pool.fetchval("SELECT 1"), 0.1)
            async with asyncio.timeout(5):
                await ledger.switches.turn_off(tenant, "all", by="olga", reason="an example")
                assert [each.name for each in await ledger.switches.off(tenant)] == ["all"]
                assert await ledger.switches.covered(Reach(tenant=tenant)) == Covered(0, 0, 0, 0)
                assert await ledger.switches.turn_on(
                    tenant, "all", lambda *_: Reach(tenant=tenant), by="olga", reason="over"
                )
    finally:
        await opened.close()


async def test_a_tenant_sees_everyones_and_turns_none_of_them(ledger: Ledger, at_once: None) -> None:
    for tenant in ("acme", "globex", EVERYONE):
        await ledger.switches.turn_off(tenant, ALL, by="olga", reason="an example")
    acme = ledger.database.tenant("acme")
    assert {row["tenant"] for row in await acme.fetch("SELECT tenant FROM switches")} == {"acme", EVERYONE}
    for tenant in ("globex", EVERYONE):
        for statement in (
            "UPDATE switches SET reason = 'x' WHERE tenant = $1",
            "DELETE FROM switches WHERE tenant = $1",
        ):
            assert (await acme.execute(statement, tenant)).endswith(" 0")
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await acme.execute("INSERT INTO switches VALUES ($1, 'all', now(), 'acme', 'x', 'run')", tenant)
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await acme.execute("UPDATE switches SET tenant = $1, name = 'all' WHERE tenant = 'acme'", tenant)
    assert [each.reason for each in await ledger.switches.off(None)] == ["an example"] * 3


async def _left(ledger: Ledger, tenant: str) -> float:
    """Minutes until the deadline of a tenant's one parked call."""
    query = "SELECT extract(epoch FROM expires_at - now()) / 60 FROM approvals WHERE tenant = $1"
    return float(await ledger.system.fetchval(query, tenant))


async def test_a_paused_deadline_is_prolonged_by_the_time_that_it_was_off(ledger: Ledger, at_once: None) -> None:
    covered, others = await parked(ledger), await parked(ledger)
    reach = Reach(tenant=covered.tenant, tools=("issue_refund",))
    for deadlines, longer in (("run", 0), ("pause", 120)):
        before, theirs = await _left(ledger, covered.tenant), await _left(ledger, others.tenant)
        await ledger.switches.turn_off(
            covered.tenant,
            ALL,
            by="olga",
            reason="an example",
            deadlines=deadlines,  # pyright: ignore[reportArgumentType]  # the two there are
        )
        await ledger.system.execute("UPDATE switches SET off_at = off_at - interval '2 hours'")
        assert await ledger.switches.turn_on(covered.tenant, ALL, lambda *_: reach, by="olga", reason="over")
        assert await _left(ledger, covered.tenant) == pytest.approx(before + longer, abs=1)
        assert await _left(ledger, others.tenant) == pytest.approx(theirs, abs=1)


@pytest.mark.parametrize(
    ("reach", "prolonged"),
    [
        (Reach(), True),
        (Reach(tools=("issue_refund", "cancel_order")), True),
        (Reach(tools=("cancel_order",)), False),
        (Reach(tools=()), False),
        (Reach(tenant="t_another"), False),
        (Reach(agent_id="support-bot"), True),
        (Reach(agent_id="another-bot"), False),
        (Reach(run_id="run_another"), False),
    ],
)
async def test_only_what_a_switch_reaches_is_prolonged_and_counted(
    ledger: Ledger, at_once: None, reach: Reach, prolonged: bool
) -> None:
    approval = await parked(ledger)
    before = await _left(ledger, approval.tenant)
    assert (await ledger.switches.covered(reach)).parked == prolonged
    await ledger.switches.turn_off(EVERYONE, ALL, by="olga", reason="an example", deadlines="pause")
    await ledger.system.execute("UPDATE switches SET off_at = off_at - interval '2 hours'")
    assert await ledger.switches.turn_on(EVERYONE, ALL, lambda *_: reach, by="olga", reason="over")
    assert await _left(ledger, approval.tenant) == pytest.approx(before + (120 if prolonged else 0), abs=1)


async def test_off_says_since_when_and_the_last_word_about_why(ledger: Ledger, at_once: None) -> None:
    tenant, begun = new_binding().tenant, datetime.now(UTC)
    first = await ledger.switches.turn_off(tenant, ALL, by="olga", reason="an alarm")
    second = await ledger.switches.turn_off(tenant, ALL, by="otto", reason="an incident", deadlines="pause")
    assert begun - timedelta(seconds=1) < first.off_at == second.off_at
    assert await ledger.switches.off(tenant) == [second]
    assert [each.by for each in await _changes(ledger, tenant)] == ["olga", "otto"]
    paused = ledger.of(tenant).permits.paused
    assert await paused(tenant, [ALL])
    assert not await paused(tenant, ["all"])


async def test_the_policy_cannot_let_through_what_is_off(ledger: Ledger, at_once: None) -> None:
    refund = Refund(1_000)
    assert isinstance(refund.policy, Policy)
    await ledger.switches.turn_off(refund.binding.tenant, f"agent:{refund.binding.agent_id}", by="olga", reason="why")
    record = await refund.admit(ledger)
    assert record.details.decision is not None
    assert (record.code, record.status, record.details.decision.rule) == (OFF, "refused", "switch")
    assert await ledger.system.fetchval("SELECT count(*) FROM uses") == 0
