"""Master keys and data keys are changed while the service runs: nothing becomes unreadable, nothing stays behind."""

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any, Protocol

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ledger import data_keys, rewrapping
from ledger.chain import break_in
from ledger.inbox import ANYBODY, Filter
from ledger.keys import KeyMaterialError, MasterKey, RootKey
from ledger.ledger import Ledger
from ledger.rewrapping import CREDENTIALS, DATA_KEYS, ORDERS, SEAL_KEYS, WAITING
from ledger.signing import BadDecision, DecisionSigner, DecisionVerifier, verifying_keys
from ledger.vault import Selection
from runtime.cli.chains import event_rows
from schemas.decisions import Approval
from tests.ledger.refunds import NOTE, ORDER, Refund, decide, decision, new_binding, open_ledger, parked

OLD, NEW, THIRD = bytes(range(32)), b"n" * 32, b"t" * 32
OLD_ID, NEW_ID = RootKey(OLD).key_id, RootKey(NEW).key_id


def _from_before(root: RootKey, purpose: str, plaintext: bytes, context: bytes) -> bytes:
    """As it was sealed before master keys had ids."""
    nonce = os.urandom(12)
    return nonce + AESGCM(root.derive(purpose)).encrypt(nonce, plaintext, context)


@pytest.mark.parametrize("ring", [(OLD, NEW), (NEW, OLD), (THIRD, NEW, OLD)])
def test_every_key_opens_what_it_sealed_wherever_it_stands(ring: tuple[bytes, ...]) -> None:
    sealed = MasterKey(OLD).wrap(b"a data key", "dk_1")
    assert MasterKey(*ring).unwrap(sealed, "dk_1") == b"a data key"
    before = _from_before(RootKey(OLD), "data-key-wrapping", b"a data key", b"dk_1")
    assert MasterKey(*ring).unwrap(before, "dk_1") == b"a data key"
    assert MasterKey(*ring).wrap(b"another", "dk_2").startswith(RootKey(ring[0]).mark)


def test_what_another_key_sealed_or_was_altered_opens_under_none() -> None:
    sealed = MasterKey(OLD).wrap(b"a data key", "dk_1")
    for ring, wrapped, key_id in (
        ((NEW, THIRD), sealed, "dk_1"),
        ((NEW, OLD), sealed, "dk_2"),
        ((NEW, OLD), sealed[:-1] + bytes([sealed[-1] ^ 1]), "dk_1"),
        ((NEW, OLD), RootKey(NEW).mark + sealed[9:], "dk_1"),
        ((NEW, OLD), sealed[:20], "dk_1"),
        ((NEW, OLD), sealed[:5], "dk_1"),
        ((NEW, OLD), b"", "dk_1"),
    ):
        with pytest.raises(InvalidTag):
            MasterKey(*ring).unwrap(wrapped, key_id)


def test_a_ring_is_of_whole_and_different_keys() -> None:
    for secrets in ((OLD, OLD), (OLD, b"short"), (b"",)):
        with pytest.raises(KeyMaterialError):
            MasterKey(*secrets)
    with pytest.raises(KeyMaterialError):
        MasterKey.of([])


def test_a_decision_counts_by_the_key_that_it_names(approval: Approval) -> None:
    made = decision(approval)
    old, new = DecisionSigner(MasterKey(OLD)).sign(made), DecisionSigner(MasterKey(NEW, OLD)).sign(made)
    both = DecisionVerifier.of(MasterKey(NEW, OLD))
    assert both.verify(old) == both.verify(new) == made
    assert DecisionVerifier.of(MasterKey(OLD, NEW)).verify(new) == made
    for verifier, token in ((MasterKey(NEW), old), (MasterKey(OLD), new)):
        with pytest.raises(BadDecision):
            DecisionVerifier.of(verifier).verify(token)
    # Under another's name a key counts for nothing.
    (name,), (pem,) = verifying_keys(MasterKey(NEW)).keys(), verifying_keys(MasterKey(OLD)).values()
    for token in (old, new):
        with pytest.raises(BadDecision):
            DecisionVerifier(named={name: pem}).verify(token)


async def _seal_key(old: Ledger) -> tuple[str, bytes, bytes]:
    """What the seals' key is wrapped for, itself, and its id."""
    row = await old.system.fetchrow("SELECT key_id, wrapped FROM seal_keys")
    assert row is not None
    return "data-key-wrapping", MasterKey(OLD).unwrap(row["wrapped"], row["key_id"]), row["key_id"].encode()


class Opening(Protocol):
    """Opens the ledger as a process with these master keys would."""

    async def __call__(self, *secrets: bytes) -> Ledger: ...


@pytest.fixture
async def opening(database: str) -> AsyncIterator[Opening]:
    async with AsyncExitStack() as stack:

        async def opened(*secrets: bytes) -> Ledger:
            one = await stack.enter_async_context(open_ledger(database, connections=3))
            return Ledger.over(one.database, MasterKey(*secrets))

        yield opened


@pytest.fixture
async def approval(opening: Opening) -> Approval:
    """One that waits, from before the change."""
    ledger = await opening(OLD)
    await ledger.vault.put("stripe", "sk_example", by="olga")
    made = await parked(ledger)
    assert await ledger.seals.seal()
    return made


async def _reads(ledger: Ledger, approval: Approval) -> None:
    """Everything about the approval is found and read."""
    own = ledger.of(approval.tenant)
    found = await own.approvals.get(approval.tenant, approval.approval_id)
    assert found is not None
    assert found.untrusted["note"] == NOTE
    assert [each.approval_id for each in await own.inbox.of_order(approval.tenant, ORDER, 5)] == [approval.approval_id]
    assert [
        each.approval_id for each in await own.inbox.waiting(approval.tenant, Filter(), ANYBODY, after=None, limit=5)
    ] == [approval.approval_id]
    record = await own.calls.read(approval.request_id)
    assert len(await own.calls.events(approval.request_id)) == record.head.n
    assert break_in(await event_rows(ledger, approval.request_id), record.head) is None
    selection = Selection(ledger.database, ledger.rewrapping._sealer)
    assert (await selection.select("acme", "stripe", "issue_refund"))[1] == "sk_example"


async def test_rewrapped_the_new_key_opens_everything_and_the_old_one_nothing(
    opening: Opening, approval: Approval
) -> None:
    both = await opening(NEW, OLD)
    await _reads(both, approval)
    signed = DecisionSigner(MasterKey(OLD)).sign(made := decision(approval))
    await both.of(approval.tenant).approvals.decide(made, signed)
    held = await both.rewrapping.held()
    # The customer's, and the tenant's own.
    assert held.by(OLD_ID) == {DATA_KEYS: 2, SEAL_KEYS: 1, CREDENTIALS: 1, ORDERS: 1, WAITING: 1}
    assert held.by(NEW_ID) == held.by(None) == {}
    result = await both.rewrapping.rewrap()
    assert (dict(result.done), dict(result.closed)) == ({DATA_KEYS: 2, SEAL_KEYS: 1, CREDENTIALS: 1, ORDERS: 1}, {})
    held = await both.rewrapping.held()
    # What a person signed is not signed again.
    assert (held.by(OLD_ID), held.by(NEW_ID)) == ({WAITING: 1}, {DATA_KEYS: 2, SEAL_KEYS: 1, CREDENTIALS: 1, ORDERS: 1})
    assert not (await both.rewrapping.rewrap()).done.total()
    new = await opening(NEW)
    record = await new.of(approval.tenant).calls.read(approval.request_id)
    assert record.details.call.arguments["note"] == NOTE
    assert await new.of(approval.tenant).inbox.of_order(approval.tenant, ORDER, 5)
    assert break_in(await event_rows(new, approval.request_id), record.head) is None
    # What is sealed after it hangs on what was sealed before.
    assert await new.seals.seal()
    await new.seals.check()
    with pytest.raises(InvalidTag):
        await (await opening(OLD)).calls.read(approval.request_id)
    # The public half of the key that is gone was kept, for whoever checks what it signed.
    assert (await new.rewrapping.public_keys()).keys() == verifying_keys(MasterKey(NEW, OLD)).keys()


async def test_what_names_no_key_is_found_opened_and_named(opening: Opening, approval: Approval) -> None:
    """As a database is that was filled before keys had ids."""
    old = await opening(OLD)
    for row in await old.system.fetch("SELECT key_id, wrapped FROM data_keys"):
        plain = MasterKey(OLD).unwrap(row["wrapped"], row["key_id"])
        before = _from_before(RootKey(OLD), "data-key-wrapping", plain, row["key_id"].encode())
        await old.system.execute("UPDATE data_keys SET wrapped = $2 WHERE key_id = $1", row["key_id"], before)
    await old.system.execute("UPDATE seal_keys SET wrapped = $1", _from_before(RootKey(OLD), *await _seal_key(old)))
    await old.system.execute("UPDATE approvals SET order_index = split_part(order_index, ':', 2)")
    both = await opening(NEW, OLD)
    await _reads(both, approval)
    assert (await both.rewrapping.held()).by(None) == {DATA_KEYS: 2, SEAL_KEYS: 1, ORDERS: 1}
    await both.rewrapping.rewrap()
    assert (await both.rewrapping.held()).by(None) == {}
    await _reads(await opening(NEW), approval)


async def test_broken_off_it_goes_on_and_everything_is_readable_meanwhile(
    opening: Opening, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = await opening(OLD)
    binding = new_binding()
    waiting = [
        await parked(ledger, binding=binding.model_copy(update={"customer_id": f"cus_{n}"}), order_id=f"ord_{n:012}")
        for n in range(5)
    ]
    both, seen = await opening(NEW, OLD), 0
    monkeypatch.setattr(rewrapping, "_BATCH", 2)

    def breaks_off(count: int) -> None:
        nonlocal seen
        seen += count
        if seen >= 4:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        await both.rewrapping.rewrap(breaks_off)
    assert (await both.rewrapping.held()).kinds[DATA_KEYS] == {NEW_ID: 4, OLD_ID: 2}
    for ring in ((NEW, OLD), (OLD, NEW)):
        fresh = await opening(*ring)
        for each in waiting:
            assert await fresh.of(each.tenant).approvals.get(each.tenant, each.approval_id)
    assert (await both.rewrapping.rewrap()).done == {DATA_KEYS: 2, ORDERS: 5}
    fresh = await opening(NEW)
    for each in waiting:
        assert await fresh.of(each.tenant).approvals.get(each.tenant, each.approval_id)


async def test_what_is_destroyed_while_it_is_rewrapped_stays_destroyed(
    opening: Opening, approval: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    both = await opening(NEW, OLD)
    anew = both.rewrapping._wrapped

    async def destroyed_meanwhile(row: Any) -> bytes:
        await both.system.execute("UPDATE data_keys SET wrapped = NULL")
        return await anew(row)

    monkeypatch.setattr(rewrapping.Rewrapping, "_wrapped", lambda self, row: destroyed_meanwhile(row))
    assert (await both.rewrapping.rewrap()).done[DATA_KEYS] == 0
    assert await both.system.fetchval("SELECT wrapped FROM data_keys") is None


async def test_what_no_key_opens_is_counted_and_does_not_stop_the_rest(opening: Opening, approval: Approval) -> None:
    stranger = await opening(THIRD)
    await parked(stranger)
    result = await (await opening(NEW, OLD)).rewrapping.rewrap()
    assert result.done == {DATA_KEYS: 2, SEAL_KEYS: 1, CREDENTIALS: 1, ORDERS: 1}
    assert result.closed == {DATA_KEYS: 2, ORDERS: 1}


async def test_a_new_data_key_seals_what_follows_and_the_old_one_opens_what_was(
    opening: Opening, approval: Approval, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, there = await opening(OLD), await opening(OLD)
    for ledger in (here, there):
        await _reads(ledger, approval)
        async with ledger.system.acquire() as connection:
            await ledger.keys.for_subject(connection, approval.tenant, approval.customer_id)
    async with here.system.acquire() as connection:
        assert await here.keys.renew(connection, approval.tenant, approval.customer_id)
        assert not await here.keys.renew(connection, approval.tenant, "cus_nobody")
    # Another process goes by what it knows for a while, and nothing that it writes is lost.
    await there.of(approval.tenant).approvals.viewed(approval, "ana")
    await here.of(approval.tenant).approvals.viewed(approval, "mei")
    rows = await event_rows(here, approval.request_id)
    first, *_, elsewhere, last = [row.key_id for row in rows]
    assert (first == elsewhere, first == last) == (True, False)
    await _reads(here, approval)
    await _reads(there, approval)
    monkeypatch.setattr("ledger.data_keys.time.monotonic", lambda: 1e12 + data_keys.KEPT_SECONDS)
    await there.of(approval.tenant).approvals.viewed(approval, "olga")
    assert (await event_rows(there, approval.request_id))[-1].key_id == last
    # Of calls that ended under either key, both are told.
    await decide(here, approval, verdict="deny")
    binding = new_binding(tenant=approval.tenant, customer_id=approval.customer_id)
    admitted = await Refund(1_000, binding=binding, order_id="ord_000000000002").admit(there)
    assert {row.key_id for row in await event_rows(there, admitted.request_id)} == {last}
    earlier = await there.of(approval.tenant).related.earlier(
        approval.model_copy(update={"request_id": "act_another"}), ["issue_refund"], approval.requested_at
    )
    assert [each.request_id for each in earlier.latest] == [admitted.request_id, approval.request_id]
