"""Credentials in the ledger: sealed where they lie, bound to their place, and the right one is selected."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from datetime import timedelta

import asyncpg
import pytest

from ledger.database import Database, connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.switches import Reach
from ledger.vault import (
    ANY_TOOL,
    NoCredentialError,
    Sealer,
    Selection,
    Vault,
    VaultLockedError,
    WrongMasterKeyError,
)
from schemas.switches import EVERYONE, PERMIT
from tests.ledger.refunds import MASTER, open_ledger

SECRET = "sk_example_4f1d9c2b7e/+="
TOOL = "issue_refund"


@pytest.fixture
async def opened(database: str) -> AsyncIterator[Database]:
    made = await connect(database, maximum=4)
    yield made
    await made.close()


def fresh(ledger: Ledger, master: MasterKey = MASTER) -> Selection:
    """A process that has read nothing yet."""
    return Selection(ledger.database, Sealer(master))


async def selected(ledger: Ledger, tenant: str = "acme", system: str = "stripe", tool: str = TOOL) -> str:
    return (await fresh(ledger).select(tenant, system, tool))[1]


async def test_a_secret_is_unreadable_wherever_it_lies(ledger: Ledger) -> None:
    record_id = await ledger.vault.put("stripe", SECRET, by="olga", tenant="acme", tool=TOOL)
    rows = await ledger.system.fetch("SELECT c.*, c::text AS written FROM credentials c")
    forms = [SECRET.encode(), SECRET.encode().hex().encode(), base64.b64encode(SECRET.encode()), SECRET[:9].encode()]
    for row in rows:
        for name, value in row.items():
            content = value if isinstance(value, bytes) else str(value).encode()
            assert not any(form in content for form in forms), name
    (stored,) = await ledger.vault.stored()
    assert (stored.credential_id, stored.tenant, stored.system, stored.tool) == (record_id, "acme", "stripe", TOOL)
    assert (stored.created_by, stored.retired_at) == ("olga", None)
    selection = fresh(ledger)
    assert await selection.select("acme", "stripe", TOOL) == (record_id, SECRET)
    assert not any(form in repr([stored, selection, vars(selection)]).encode() for form in forms), "sealed in memory"


async def test_the_same_secret_is_sealed_differently_each_time(ledger: Ledger) -> None:
    for _ in range(2):
        await ledger.vault.put("stripe", SECRET, by="olga")
    assert await ledger.system.fetchval("SELECT count(DISTINCT sealed) FROM credentials") == 2


@pytest.mark.parametrize(
    "move",
    [
        "UPDATE credentials SET tenant = 'globex' WHERE credential_id = $1",
        "UPDATE credentials SET tenant = '*' WHERE credential_id = $1",
        "UPDATE credentials SET tool = 'cancel_order' WHERE credential_id = $1",
        "UPDATE credentials SET tool = '*' WHERE credential_id = $1",
        "UPDATE credentials SET system = 'store' WHERE credential_id = $1",
        "UPDATE credentials SET credential_id = 'cred_another' WHERE credential_id = $1",
        "UPDATE credentials SET sealed = set_byte(sealed, 20, get_byte(sealed, 20) # 1) WHERE credential_id = $1",
        "UPDATE credentials SET sealed = '' WHERE credential_id = $1",
    ],
)
async def test_a_sealed_secret_opens_only_where_it_was_put(ledger: Ledger, move: str) -> None:
    record_id = await ledger.vault.put("stripe", SECRET, by="olga", tenant="acme", tool=TOOL)
    assert await selected(ledger) == SECRET
    await ledger.system.execute(move, record_id)
    row = await ledger.system.fetchrow("SELECT * FROM credentials")
    assert row is not None
    tenant = "acme" if row["tenant"] == EVERYONE else row["tenant"]
    tool = TOOL if row["tool"] == ANY_TOOL else row["tool"]
    with pytest.raises(WrongMasterKeyError) as raised:
        await selected(ledger, tenant, row["system"], tool)
    assert raised.value.args == (row["credential_id"],)


async def test_two_records_cannot_swap_their_secrets(ledger: Ledger) -> None:
    for tenant in ("acme", "globex"):
        await ledger.vault.put("stripe", f"{SECRET} of {tenant}", by="olga", tenant=tenant)
    await ledger.system.execute(
        "UPDATE credentials c SET sealed = o.sealed FROM credentials o WHERE c.credential_id <> o.credential_id"
    )
    for tenant in ("acme", "globex"):
        with pytest.raises(WrongMasterKeyError):
            await selected(ledger, tenant)


async def test_another_master_key_opens_nothing(ledger: Ledger) -> None:
    record_id = await ledger.vault.put("stripe", SECRET, by="olga")
    another = MasterKey(bytes(32))
    with pytest.raises(WrongMasterKeyError) as raised:
        await fresh(ledger, another).select("acme", "stripe", TOOL)
    assert raised.value.args == (record_id,)
    assert raised.value.__suppress_context__
    with pytest.raises(WrongMasterKeyError):
        await Vault(ledger.system, Sealer(another)).put_once("stripe", SECRET, by="olga")


async def test_the_most_closely_bound_is_selected(ledger: Ledger) -> None:
    """To the tenant before everyone, to the tool before any; each that is put takes the place of those before."""
    with pytest.raises(NoCredentialError):
        await selected(ledger)
    for n, (tenant, tool) in enumerate(
        [(EVERYONE, ANY_TOOL), (EVERYONE, TOOL), ("acme", ANY_TOOL), ("acme", TOOL)], start=1
    ):
        await ledger.vault.put("stripe", f"secret {n}", by="olga", tenant=tenant, tool=tool)
        assert await selected(ledger) == f"secret {n}"
    # Wider ones that are newer change nothing.
    await ledger.vault.put("stripe", "secret 5", by="olga")
    await ledger.vault.put("stripe", "secret 6", by="olga", tenant="acme")
    assert await selected(ledger) == "secret 4"
    assert await selected(ledger, tool="cancel_order") == "secret 6"
    assert await selected(ledger, tenant="globex") == "secret 2"
    assert await selected(ledger, tenant="globex", tool="cancel_order") == "secret 5"


async def test_of_one_tenant_tool_or_system_nothing_goes_to_another(ledger: Ledger) -> None:
    await ledger.vault.put("stripe", SECRET, by="olga", tenant="acme", tool=TOOL)
    for tenant, system, tool in (("globex", "stripe", TOOL), ("acme", "sandbox", TOOL), ("acme", "stripe", "another")):
        with pytest.raises(NoCredentialError):
            await selected(ledger, tenant, system, tool)


async def test_a_new_one_is_selected_within_a_second_in_every_process(ledger: Ledger, database: str) -> None:
    await ledger.vault.put("stripe", "old", by="olga")
    async with open_ledger(database) as other:
        for each in (ledger, other):
            assert (await each.credentials.select("acme", "stripe", TOOL))[1] == "old"
        await ledger.vault.put("stripe", "new", by="olga")
        put = time.monotonic()
        for each in (ledger, other):
            while (await each.credentials.select("acme", "stripe", TOOL))[1] != "new":
                await asyncio.sleep(0.02)
        assert time.monotonic() - put < PERMIT.total_seconds() + 0.5
        for each in (ledger, other):
            assert (await each.credentials.select("acme", "stripe", TOOL))[1] == "new"


async def test_what_was_read_counts_for_less_than_a_second(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr("ledger.vault.time.monotonic", lambda: now)
    await ledger.vault.put("stripe", "old", by="olga")
    assert (await ledger.credentials.select("acme", "stripe", TOOL))[1] == "old"
    await ledger.vault.put("stripe", "new", by="olga")
    now += 0.99
    assert (await ledger.credentials.select("acme", "stripe", TOOL))[1] == "old"
    assert (await ledger.credentials.select("acme", "stripe", "another"))[1] == "new"
    now += 0.01
    assert (await ledger.credentials.select("acme", "stripe", TOOL))[1] == "new"


async def test_a_retired_one_gives_way_to_the_one_before(ledger: Ledger) -> None:
    old = await ledger.vault.put("stripe", "old", by="olga")
    new = await ledger.vault.put("stripe", "new", by="olga")
    assert await ledger.vault.retire(new)
    assert not await ledger.vault.retire(new), "it is out of use already"
    assert await selected(ledger) == "old"
    assert await ledger.vault.retire(old)
    with pytest.raises(NoCredentialError):
        await selected(ledger)
    assert all(each.retired_at for each in await ledger.vault.stored())
    assert not await ledger.vault.retire("cred_unknown")


async def test_putting_once_keeps_what_is_in_use_and_replaces_what_is_not(ledger: Ledger) -> None:
    for secret, records in (("one", 1), ("one", 1), ("two", 2), ("two", 2), ("one", 3)):
        await ledger.vault.put_once("stripe", secret, by="counterseal up")
        assert len(await ledger.vault.stored()) == records
        assert await selected(ledger) == secret
    await ledger.vault.put("stripe", "of acme", by="olga", tenant="acme")
    await ledger.vault.put_once("stripe", "one", by="counterseal up")
    assert len(await ledger.vault.stored()) == 4


@pytest.mark.parametrize("whose", ["acme", EVERYONE])
async def test_while_it_is_locked_nothing_is_selected(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, whose: str
) -> None:
    monkeypatch.setattr("ledger.switches.PERMIT", timedelta(0))
    await ledger.vault.put("stripe", SECRET, by="olga")
    await ledger.switches.turn_off(whose, "vault", by="olga", reason="an example")
    for system in ("stripe", "nothing is kept for it"):
        with pytest.raises(VaultLockedError):
            await selected(ledger, system=system)
    if whose != EVERYONE:
        assert await selected(ledger, tenant="globex") == SECRET
    assert await ledger.switches.turn_on(whose, "vault", lambda *_: Reach(), by="olga", reason="over")
    assert await selected(ledger) == SECRET


async def test_once_locking_was_acknowledged_nothing_is_selected_of_what_was_read_before(
    ledger: Ledger, database: str
) -> None:
    await ledger.vault.put("stripe", SECRET, by="olga")
    async with open_ledger(database) as other:
        locking = asyncio.ensure_future(ledger.switches.turn_off(EVERYONE, "vault", by="olga", reason="an example"))
        while not locking.done():
            for each in (ledger, other):
                try:
                    await each.credentials.select("acme", "stripe", TOOL)
                except VaultLockedError:
                    continue
            await asyncio.sleep(0.005)
        for each in (ledger, other):
            with pytest.raises(VaultLockedError):
                await each.credentials.select("acme", "stripe", TOOL)


async def test_a_tenants_connection_changes_nothing_of_everyones(opened: Database) -> None:
    vault = Vault(opened.system, Sealer(MASTER))
    everyones = await vault.put("stripe", SECRET, by="olga")
    theirs = await vault.put("stripe", SECRET, by="olga", tenant="globex")
    acme = opened.tenant("acme")
    rows = await acme.fetch("SELECT tenant FROM credentials")
    assert [row["tenant"] for row in rows] == [EVERYONE]
    for record_id in (everyones, theirs):
        for statement in (
            "UPDATE credentials SET retired_at = now() WHERE credential_id = $1",
            "DELETE FROM credentials WHERE credential_id = $1",
        ):
            assert (await acme.execute(statement, record_id)).endswith(" 0")
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await Vault(acme, Sealer(MASTER)).put("stripe", SECRET, by="olga")
    assert [each.retired_at for each in await vault.stored()] == [None, None]
