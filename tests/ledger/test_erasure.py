"""A customer is erased: nothing that was theirs can be read any more, what is left proves the rest, life goes on."""

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import asyncpg
import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from activities.outcomes import after_attempt
from api.pages.story import story
from ledger import data_keys
from ledger.calls import UnknownCall
from ledger.chain import break_in
from ledger.data_keys import KeyDestroyed
from ledger.erasure import StillOpen, customer_fingerprint, erasures_of
from ledger.ledger import Ledger
from ledger.principals import Principal
from ledger.records import CallRecord
from runtime.cli.chains import event_rows
from runtime.stack.postgres import Postgres
from schemas.calls import Binding
from schemas.diagnostics import Diagnostic
from schemas.effects import Confirmed
from schemas.events import CustomerErased, DiagnosticOpened, Pruned
from tests.ledger.refunds import MASTER, NOTE, Refund, advance, decide, exchange, new_binding, open_ledger, parked

REASON = "the parcel of Ada Example came back"
# What a search for the customer would look for, in the order it was said: their id, order, note, a person's reason.
ORDER = "ord_canary00ada1"
_SOMEBODY_WAITS = "SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
ACCOUNT = "what the gateway said of Ada Example"


def _binding(**changes: str) -> Binding:
    return new_binding(tenant="acme", customer_id="cus_Canary_ada", **changes)


async def _history(ledger: Ledger) -> list[CallRecord]:
    """Calls of the customer that ended each in its way, with everything that is kept of such."""
    binding = _binding(actor_id="cus_Canary_ada")
    denied = await parked(ledger, binding=binding, order_id=ORDER)
    await ledger.of("acme").approvals.viewed(denied, "ana")
    await decide(ledger, denied, verdict="deny", reason=REASON)
    executed = await Refund(1_000, binding=binding, order_id=ORDER).admit(ledger)
    assert executed.details.effect is not None
    outcome = Confirmed(remote_id="re_1", result={"amount_cents": 1_000}, exchange=exchange())
    step = after_attempt(executed.details.effect, outcome, done="refunded", operation="refund")
    executed = await advance(ledger, executed, step)
    account = Diagnostic(
        request_id=executed.request_id, step="execute", began_at=datetime.now(UTC), elapsed_ms=1, told=ACCOUNT
    )
    await ledger.diagnostics.store(account, "acme", binding.customer_id)
    return [await ledger.calls.read(denied.request_id), executed]


@pytest.fixture
async def other(database: str) -> AsyncIterator[Ledger]:
    """Another process, with keys of its own in memory."""
    async with open_ledger(database) as opened:
        yield opened


async def _erase(ledger: Ledger, customer_id: str = "cus_Canary_ada") -> int:
    return await ledger.erasures.erase("acme", customer_id, by="olga", reason="asked for")


async def _readable(ledger: Ledger) -> str:
    """Every cell of every table, and whatever of it opens with a data key: all that there is to find."""
    columns = await ledger.system.fetch(
        "SELECT c.table_name, c.column_name FROM information_schema.columns c"
        " JOIN information_schema.tables t USING (table_schema, table_name)"
        " WHERE c.table_schema = 'public' AND t.table_type = 'BASE TABLE'"
    )
    keys = [AESGCM(key) for key in await _data_keys(ledger)]
    found: list[str] = []
    for table, column in columns:
        for (value,) in await ledger.system.fetch(f'SELECT "{column}" FROM "{table}"'):
            found.append(value.decode("latin-1") if isinstance(value, bytes) else str(value))
    for table, column, context in _SEALED:
        for row in await ledger.system.fetch(f'SELECT *, {context} AS context FROM "{table}"'):
            for key in keys:
                try:
                    found.append(key.decrypt(row[column][:12], row[column][12:], row["context"].encode()).decode())
                except (InvalidTag, TypeError):
                    continue
    return "\n".join(found)


# What is sealed under data keys, and what is authenticated with it, as canonical JSON.
_SEALED = (
    ("events", "body", 'format(\'["%s","%s",%s,"%s",%s]\', tenant, request_id, n, type, version)'),
    ("calls", "details", 'format(\'["%s","%s","details"]\', tenant, request_id)'),
    ("approvals", "card", 'format(\'["%s","%s","card"]\', tenant, approval_id)'),
    ("decisions", "body", 'format(\'["%s","%s","decision"]\', tenant, decision_id)'),
    ("diagnostics", "body", 'format(\'["%s","%s","diagnostic"]\', tenant, request_id)'),
)


async def _data_keys(ledger: Ledger) -> list[bytes]:
    rows = await ledger.system.fetch("SELECT key_id, wrapped FROM data_keys WHERE wrapped IS NOT NULL")
    return [MASTER.unwrap(row["wrapped"], row["key_id"]) for row in rows]


async def test_nothing_of_the_customer_is_left_in_the_database_for_whoever_has_every_key(ledger: Ledger) -> None:
    await _history(ledger)
    # Four digits are in many a hash, id and time; not between what is none of those.
    card = re.compile(r"(?<![0-9a-f.-])4242(?![0-9a-f-])")
    canaries = [*map(re.compile, (NOTE, REASON, ORDER, ACCOUNT, "cus_Canary_ada", "cus_canary_ada")), card]
    before = await _readable(ledger)
    # The search finds what is there.
    assert all(canary.search(before) for canary in canaries)
    assert await _erase(ledger) == 2
    after = await _readable(ledger)
    assert [canary for canary in canaries if canary.search(after)] == []
    assert "ana" in after


async def test_what_is_left_is_whole_and_says_who_decided(ledger: Ledger, other: Ledger) -> None:
    denied, executed = await _history(ledger)
    rows = {each.request_id: await event_rows(ledger, each.request_id) for each in (denied, executed)}
    await _erase(ledger)
    for ledger_ in (ledger, other):
        for before in (denied, executed):
            assert await event_rows(ledger_, before.request_id) == rows[before.request_id]
            assert break_in(rows[before.request_id], before.head) is None
            outline = await ledger_.calls.outline(before.request_id)
            assert (outline.erased, outline.status, outline.head) == (True, before.status, before.head)
            with pytest.raises(KeyDestroyed):
                await ledger_.calls.read(before.request_id)
            assert await ledger_.of("acme").calls.visible_to("acme", "support-bot", before.request_id) is None
        events = await other.calls.events(denied.request_id)
        assert all(isinstance(event, Pruned) and event.erased for _, event in events)
        assert story(events)[0].sentence == "Call proposed; what it said was erased with its customer"
        (shown,) = await ledger_.of("acme").approvals.closed("acme", after=None, tool=None, limit=5)
        assert (shown.erased, shown.status, shown.arguments, shown.facts) == (True, "denied", {}, {})
        (decision,) = shown.decisions
        assert (decision.approver, decision.verdict, decision.reason) == ("ana", "deny", "")
        assert await ledger_.of("acme").inbox.of_order("acme", ORDER, 5) == []


async def test_it_is_recorded_where_it_names_nobody(ledger: Ledger) -> None:
    await _history(ledger)
    await _erase(ledger)
    ((row, event),) = await ledger.calls.events(erasures_of("acme"))
    assert event == CustomerErased(
        customer=customer_fingerprint("acme", "cus_Canary_ada"), calls=2, by="olga", reason="asked for"
    )
    assert (row.tenant, row.n) == ("acme", 1)
    extent = await ledger.erasures.extent("acme", "cus_Canary_ada")
    assert extent.nothing


async def test_others_are_left_alone(ledger: Ledger) -> None:
    await _history(ledger)
    neighbour = await parked(ledger, binding=_binding().model_copy(update={"customer_id": "cus_other"}))
    namesake = await parked(ledger, binding=_binding().model_copy(update={"tenant": "globex"}))
    uses = await ledger.system.fetchval("SELECT count(*) FROM uses WHERE subject ~ '^(customer|order|repeat):'")
    await _erase(ledger)
    for each in (neighbour, namesake):
        found = await ledger.of(each.tenant).approvals.get(each.tenant, each.approval_id)
        assert found is not None
        assert (found.erased, found.untrusted["note"], found.customer_id) == (False, NOTE, each.customer_id)
        assert (await ledger.of(each.tenant).calls.read(each.request_id)).details.call.arguments["note"] == NOTE
    left = await ledger.system.fetchval("SELECT count(*) FROM uses WHERE subject ~ '^(customer|order|repeat):'")
    assert 0 < left < uses


async def test_a_call_that_has_not_ended_keeps_its_customer(ledger: Ledger) -> None:
    await _history(ledger)
    waiting = await parked(ledger, binding=_binding())
    with pytest.raises(StillOpen) as refused:
        await _erase(ledger)
    assert refused.value.request_ids == [waiting.request_id]
    found = await ledger.of("acme").approvals.get("acme", waiting.approval_id)
    assert found is not None
    assert found.untrusted["note"] == NOTE
    with pytest.raises(UnknownCall):
        await ledger.calls.events(erasures_of("acme"))


async def test_a_call_that_is_admitted_meanwhile_is_waited_for(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise it would wait for a person with a key that is gone."""
    await _history(ledger)
    reached, go_on = asyncio.Event(), asyncio.Event()
    insert = type(other.admissions)._insert

    async def slowly(self: Any, *arguments: Any) -> CallRecord:
        reached.set()
        await go_on.wait()
        return await insert(self, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(type(other.admissions), "_insert", slowly)
        admitting = asyncio.create_task(parked(other, binding=_binding()))
        await reached.wait()
        erasing = asyncio.create_task(_erase(ledger))
        try:
            async with asyncio.timeout(10):
                while not await ledger.system.fetchval(_SOMEBODY_WAITS):
                    await asyncio.sleep(0.01)
        finally:
            go_on.set()
        waiting = await admitting
        with pytest.raises(StillOpen):
            await erasing
    assert await ledger.of("acme").approvals.get("acme", waiting.approval_id) is not None


async def test_the_customers_runs_end_and_what_comes_later_is_under_a_new_key(ledger: Ledger, other: Ledger) -> None:
    """Erasing is about what there is: it bars nobody from being a customer."""
    await _history(ledger)
    service = Principal("service", "acme", "runtime")
    opened = [
        await ledger.principals.open_run(
            service,
            agent_id="bot",
            actor_id="user_17",
            customer_id="cus_Canary_ada",
            tools=["issue_refund"],
            seconds=60,
        )
    ]
    # The other process knows the key, and uses it at once.
    async with other.system.acquire() as connection:
        old = await other.keys.for_subject(connection, "acme", "cus_Canary_ada")
    await _erase(ledger)
    state = await other.admissions.run(opened[0].run_id, "")
    assert state is not None
    assert (state.is_open, state.binding.customer_id.startswith("erased_")) == (False, True)
    opened.append(
        await ledger.principals.open_run(
            service,
            agent_id="bot",
            actor_id="user_17",
            customer_id="cus_Canary_ada",
            tools=["issue_refund"],
            seconds=60,
        )
    )
    state = await other.admissions.run(opened[1].run_id, "")
    assert state is not None
    assert state.is_open
    later = await Refund(1_000, binding=state.binding).admit(other)
    keys = {row.key_id for row in await event_rows(other, later.request_id)}
    assert old.key_id not in keys
    assert (await ledger.calls.read(later.request_id)).details.call.arguments["note"] == NOTE


async def test_a_process_that_has_just_read_it_writes_nothing_more_and_soon_forgets(
    ledger: Ledger, other: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    denied, _ = await _history(ledger)
    assert (await other.calls.read(denied.request_id)).details.call.arguments["note"] == NOTE
    await _erase(ledger)
    opened = DiagnosticOpened(principal="olga", through="page")
    for work in (
        other.calls.read(denied.request_id),
        other.approvals.reject(denied.request_id, denied.approval_id or "", "an example"),
        other.calls.advance(denied.request_id, lambda record, now: None),
    ):
        with pytest.raises(KeyDestroyed):
            await work
    assert await other.diagnostics.open(denied.request_id, opened, tenant="acme") == []
    assert break_in(await event_rows(other, denied.request_id), denied.head) is None
    # The events' bodies are asked for by the key that each names.
    assert not isinstance((await other.calls.events(denied.request_id))[0][1], Pruned)
    monkeypatch.setattr("ledger.data_keys.time.monotonic", lambda: 1e12 + data_keys.KEPT_SECONDS)
    assert isinstance((await other.calls.events(denied.request_id))[0][1], Pruned)


async def test_every_key_that_the_customer_ever_had_is_destroyed(ledger: Ledger) -> None:
    denied, executed = await _history(ledger)
    async with ledger.system.acquire() as connection:
        assert await ledger.keys.renew(connection, "acme", "cus_Canary_ada")
    await Refund(1_100, binding=_binding(), order_id="ord_canary00ada2").admit(ledger)
    await ledger.system.execute("UPDATE calls SET status = 'failed' WHERE status = 'in_progress'")
    assert len(await _data_keys(ledger)) == 3
    assert await _erase(ledger) == 3
    # The tenant's own is left.
    assert len(await _data_keys(ledger)) == 1
    assert NOTE not in await _readable(ledger)
    for each in (denied, executed):
        assert (await ledger.calls.outline(each.request_id)).erased


async def test_nothing_follows_a_late_failure_of_what_was_erased(ledger: Ledger) -> None:
    _, executed = await _history(ledger)
    await ledger.system.execute("UPDATE calls SET recheck_at = now() - interval '1 day' WHERE remote_id IS NOT NULL")
    assert await ledger.calls.to_recheck(5)
    assert await ledger.calls.by_effect(executed.operation_id, "re_1")
    assert (await ledger.erasures.extent("acme", "cus_Canary_ada")).watched == 1
    await _erase(ledger)
    assert await ledger.calls.to_recheck(5) == []
    assert await ledger.calls.by_effect(executed.operation_id, "re_1") is None


async def test_the_services_role_may_erase(ledger: Ledger, database: str, postgres_server: Postgres) -> None:
    await _history(ledger)
    async with open_ledger(postgres_server.service_url(database.rpartition("/")[2])) as service:
        assert await _erase(service) == 2
        with pytest.raises(asyncpg.InsufficientPrivilegeError):
            await service.system.execute("DELETE FROM data_keys")


def test_a_fingerprint_is_of_a_tenants_customer() -> None:
    found = {customer_fingerprint(*each) for each in (("acme", "cus_1"), ("globex", "cus_1"), ("acme", "cus_2"))}
    assert len(found) == 3
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in found)
