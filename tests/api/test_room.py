"""A process that has its hands full: calls wait a little, then are told to come again, and nothing is half done."""

import asyncio

import pytest

from api.room import NoRoomError, Room
from tests.api.conftest import Api, Tenant
from tests.service import refund_arguments, until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_a_call_waits_for_room_and_is_made() -> None:
    room, order = Room(1), list[str]()
    entered = asyncio.Event()

    async def first() -> None:
        async with room.taken():
            entered.set()
            await asyncio.sleep(0)
            order.append("first")

    async def second() -> None:
        await entered.wait()
        async with room.taken():
            order.append("second")

    await asyncio.gather(second(), first())
    assert order == ["first", "second"]


async def test_it_is_turned_away_after_a_while() -> None:
    room = Room(1, seconds=0.01)
    async with room.taken():
        with pytest.raises(NoRoomError):
            async with room.taken():
                pytest.fail("there was room for two")
    async with room.taken():
        pass


async def test_too_many_that_wait_are_turned_away_at_once() -> None:
    room = Room(1, waiting=1, seconds=3_600)
    async with room.taken():
        waiting = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
        with pytest.raises(NoRoomError):
            async with room.taken():
                pytest.fail("two waited")
    await waiting
    async with room.taken():
        pass


async def test_one_that_gives_up_waiting_leaves_its_place() -> None:
    room = Room(1, waiting=1, seconds=3_600)
    async with room.taken():
        gone = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
        gone.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gone
        waiting = asyncio.create_task(_enter(room))
        await asyncio.sleep(0)
    await waiting


async def _enter(room: Room) -> None:
    async with room.taken():
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
            return True if room.is_full else None

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
