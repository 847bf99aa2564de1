"""A process that has its hands full: calls wait a little, then are told to come again, and nothing is half done."""

import asyncio
import random
from contextlib import AsyncExitStack

import pytest

from api.room import NoRoomError, Room
from tests.api.conftest import Api, Tenant
from tests.service import refund_arguments, until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_call_waits_for_room_and_is_made() -> None:
    room, order = Room(1), list[str]()
    entered = asyncio.Event()

    async def first() -> None:
        async with room.taken("acme"):
            entered.set()
            await asyncio.sleep(0)
            order.append("first")

    async def second() -> None:
        await entered.wait()
        async with room.taken("acme"):
            order.append("second")

    await asyncio.gather(second(), first())
    assert order == ["first", "second"]


async def test_it_is_turned_away_after_a_while() -> None:
    room = Room(1, seconds=0.01)
    async with room.taken("acme"):
        with pytest.raises(NoRoomError):
            async with room.taken("acme"):
                pytest.fail("there was room for two")
    async with room.taken("acme"):
        pass


async def test_too_many_that_wait_are_turned_away_at_once() -> None:
    room = Room(1, waiting=1, seconds=3_600)
    async with room.taken("acme"):
        waiting = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
        with pytest.raises(NoRoomError):
            async with room.taken("acme"):
                pytest.fail("two waited")
    await waiting
    async with room.taken("acme"):
        pass


async def test_one_that_gives_up_waiting_leaves_its_place() -> None:
    room = Room(1, waiting=1, seconds=3_600)
    async with room.taken("acme"):
        gone = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        waiting = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
    await waiting


async def test_one_tenant_leaves_room_for_the_others() -> None:
    """However many calls it has, however long they take and however many wait: and theirs do not wait behind those."""
    room = Room(4, waiting=4, seconds=3_600)
    async with AsyncExitStack() as slow:
        for _ in range(4):
            await slow.enter_async_context(room.taken("acme"))
        waiting = [asyncio.create_task(_enter(room)) for _ in range(4)]
        await asyncio.sleep(0)
        with pytest.raises(NoRoomError):
            await _enter(room)
        assert room.is_full("acme")
        assert not room.is_full("globex")
        async with room.taken("globex"):
            later = asyncio.create_task(_enter(room, "initech"))
            await asyncio.sleep(0)
            assert not later.done()
        await later
        assert not any(each.done() for each in waiting)
    await asyncio.gather(*waiting)


async def test_of_whatever_became_of_its_calls_nothing_is_left() -> None:
    """They end, fail, are cancelled at any await, or give up: afterwards there is as much room as before."""
    chosen, room = random.Random(4), Room(2, waiting=3, seconds=0.002)

    async def one() -> None:
        async with room.taken(chosen.choice(["acme", "globex", "initech"])):
            await asyncio.sleep(chosen.choice([0, 0, 0.001, 0.004]))
            if chosen.random() < 0.2:
                raise LookupError

    async with room.taken("acme"):
        for _ in range(60):
            tasks = [asyncio.create_task(one()) for _ in range(8)]
            for _ in tasks:
                await asyncio.sleep(0)
                if chosen.random() < 0.5:
                    chosen.choice(tasks).cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
            assert {type(each) for each in ended} <= {type(None), LookupError, NoRoomError, asyncio.CancelledError}
        async with AsyncExitStack() as taken:
            for tenant in ("acme", "globex"):
                assert not room.is_full(tenant)
                await taken.enter_async_context(room.taken(tenant))
            assert all(map(room.is_full, ("acme", "globex")))
            # Three of a tenant may wait, and one more of all.
            waiting = [asyncio.create_task(_enter(room, each)) for each in ("acme", "acme", "acme", "globex")]
            await asyncio.sleep(0)
            assert not any(each.done() for each in waiting)
            with pytest.raises(NoRoomError):
                await _enter(room, "initech")
            await asyncio.gather(*waiting, return_exceptions=True)


async def _enter(room: Room, tenant: str = "acme") -> None:
    async with room.taken(tenant):
        pass


async def test_a_full_process_begins_nothing_and_the_same_key_is_safe_to_send_again(api: Api, tenant: Tenant) -> None:
    first, second = [await api.service.outside.order() for _ in range(2)]
    tokens = [await tenant.run(order["customer_id"]) for order in (first, second)]
    arguments = refund_arguments(second, 4_999)
    await api.service.outside.fault("delay:2", first, operation="refund")
    room = Room(1, seconds=0.01)
    with api.over(room=room):
        slow = asyncio.create_task(api.call(tokens[0], refund_arguments(first, 4_999)))

        async def full() -> bool | None:
            return True if room.is_full(tenant.name) else None

        await until(full)
        turned_away = await api.call(tokens[1], arguments)
        assert turned_away.status_code == 503
        assert int(turned_away.headers["Retry-After"]) >= 1
        assert turned_away.json()["code"] == "TEMPORARY_FAILURE"
        found = await api.service.core.ledger.system.fetchval(
            "SELECT count(*) FROM calls WHERE customer_id = $1", second["customer_id"]
        )
        assert found == 0
        assert (await slow).json()["status"] == "executed"
    assert (await api.call(tokens[1], arguments)).json()["status"] == "executed"
