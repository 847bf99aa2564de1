"""Histories that chance finds too rarely, over the model's world."""

import secrets
from datetime import timedelta
from typing import Any

import pytest

from ledger.records import CallRecord
from runtime.stack.postgres import Postgres
from tests.model.checks import Watch
from tests.model.world import World, ground
from tests.service import fresh_database


async def _until_sent_again(world: World, request_id: str) -> CallRecord:
    """Time passes, while whatever hangs goes on hanging; nothing is done after the repeat."""
    world.workers = False
    for _ in range(60):
        if len(world.network.posts) > 1:
            return await world.own.calls.read(request_id)
        moment = world.server.next_moment()
        assert moment is not None
        await world.clock.go_to(moment)
        await world.work()
        for asked in world.server.asked():
            await world.work_on(asked)
    raise AssertionError("it was not sent again")


def _refund(world: World) -> dict[str, Any]:
    return {
        "order_id": world.orders[0].order_id,
        "amount_cents": 4_000,
        "currency": "USD",
        "reason_code": "damaged",
        "idempotency_key": secrets.token_hex(16),
    }


async def test_what_a_repeat_is_refused_with_says_nothing_of_a_refund_that_does_not_show_yet(
    postgres_server: Postgres, migrated_template: str
) -> None:
    async with fresh_database(postgres_server, migrated_template) as url, ground(url) as common:
        world = World(common)
        watch = Watch(world)
        for do in ("late_visible:1000", "429:5"):
            world.fault(do, "refund", world.orders[0].payments[0].payment_id, 1)
        reply = await world.propose(_refund(world))
        assert not isinstance(reply, str)
        await _until_sent_again(world, reply.request_id)
        await watch.look()
        assert (await world.own.calls.read(reply.request_id)).status == "outcome_unknown"
        world.calm()
        await world.pass_time(timedelta(hours=1))
        await watch.look()
        await watch.at_the_end()
        await world.close()


@pytest.mark.parametrize("first", ["429:5", "503"])
async def test_what_a_stalled_process_says_of_a_first_attempt_does_not_undo_the_second(
    postgres_server: Postgres, migrated_template: str, first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It stood still with its answer, for so long that the refund was sent again; and then it goes on."""
    monkeypatch.setattr("activities.proposals._PAUSES", (0.0, 0.0))
    async with fresh_database(postgres_server, migrated_template) as url, ground(url) as common:
        world = World(common)
        watch = Watch(world)
        order = world.orders[0]
        payment = order.payments[0].payment_id
        world.network.disturbances.append(("held_after", payment))
        for do in (first, "commit_then_drop"):
            world.fault(do, "refund", payment, 1)
        reply = await world.propose(_refund(world))
        assert not isinstance(reply, str)
        await watch.look()
        assert (await _until_sent_again(world, reply.request_id)).status == "outcome_unknown"
        for held in [*world.network.held]:
            await world.go_on(held, "answer")
        await watch.look()
        assert (await world.own.calls.read(reply.request_id)).status in ("outcome_unknown", "executed")
        world.calm()
        for _ in range(20):
            await world.heal()
        await watch.look()
        await watch.at_the_end()
        assert len(world.effects()) == 1
        await world.close()
