"""Failures of our own: in a tool, in the API, on a page; the database away, Temporal away; the vault locked."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from typing import Any

import asyncpg
import pytest

from ledger.switches import Reach
from schemas.codes import Code
from tests.canary import probes
from tests.canary.probes import Probe
from tests.canary.world import TENANT, World


class Bug(Exception):
    """Something in the service is broken."""


def _broken(world: World, kind: type[Exception], called: asyncio.Event) -> Any:
    """A function that raises with every secret in its exception's text, notes and cause, and in its variables."""
    told = world.planted.told

    def breaks(*given: Any, **named: Any) -> Any:
        called.set()
        held = {"authorization": told, "given": given, "named": named}
        try:
            raise LookupError(f"no such key: {told}")
        except LookupError as cause:
            problem = kind(f"while {len(held)} things were held: {told}")
            problem.add_note(told)
            raise problem from cause

    return breaks


@contextmanager
def breaking(world: World, *targets: str, kind: type[Exception] = Bug) -> Generator[asyncio.Event]:
    """Each of `targets` raises; gives what is set once one of them did."""
    called = asyncio.Event()
    with pytest.MonkeyPatch.context() as patch:
        for target in targets:
            patch.setattr(target, _broken(world, kind, called))
        yield called


async def tool_reading(world: World) -> list[Probe]:
    """The tool fails while it reads facts: the workflow tries again, until somebody mends it."""
    order = await world.shop.order(50_000)
    customer_id = order["customer_id"]
    probe = await probes.opened(world, "issue_refund, then mended", Code.OK, customer_id, accounts=1, own_failure=True)
    with breaking(world, "tools.issue_refund.tool.IssueRefund.read_facts"):
        arguments = probes.arguments_of_refund(world, order, probes.FREE)
        await probes.post(world, probe, "issue_refund", arguments, wait=0)
        assert probe.reply["code"] == Code.IN_PROGRESS, probe.reply
    await probes.known(world, probe)
    await probes.ask(world, probe)
    await probes.rest(world, probe)
    return [probe]


async def tool_sending(world: World) -> list[Probe]:
    """The tool fails while it sends, before it can say whether it did."""
    played: list[Probe] = []
    with breaking(world, "tools.issue_refund.tool.IssueRefund.execute"):
        for play in (probes.refund, probes.approved_refund):
            probe = await play(world, Code.OUTCOME_UNKNOWN, accounts=2, own_failure=True)
            await probes.rest(world, probe)
            played.append(probe)
    return played


async def in_the_api(world: World) -> list[Probe]:
    """The API itself fails, for an agent and for a person."""
    order = await world.shop.order(50_000)
    expected, customer_id = Code.INTERNAL_FAILURE, order["customer_id"]
    probe = await probes.opened(world, "issue_refund", expected, customer_id, accounts=1, own_failure=True)
    with breaking(world, "api.asking.call_tool", "api.pages.inbox.tool_title", "api.pages.inbox._parts"):
        await probes.post(world, probe, "issue_refund", probes.arguments_of_refund(world, order, probes.FREE))
        probe.workflow_id = None
        page = await world.people["ana"].get("/", params={"note": world.planted.told})
        assert page.status_code == 500, page.status_code
        probe.other.append(page)
    return [probe]


async def database_away(world: World) -> list[Probe]:
    """The database goes away between the facts and the decision; then it is back, and the call goes on."""
    order = await world.shop.order(50_000)
    probe = await probes.opened(world, "issue_refund, then mended", Code.OK, order["customer_id"], accounts=1)
    world.board.before_reading = world.database_line.cut
    try:
        arguments = probes.arguments_of_refund(world, order, probes.FREE)
        await probes.post(world, probe, "issue_refund", arguments)
        assert probe.reply["code"] == Code.TEMPORARY_FAILURE, probe.reply
        page = await world.people["ana"].get("/history")
        assert page.status_code == 503, page.status_code
        probe.other.append(page)
    finally:
        world.board.before_reading = lambda: None
        await world.database_line.mend()
    await probes.post(world, probe, "issue_refund", arguments)
    await probes.ask(world, probe)
    await probes.rest(world, probe)
    return [probe]


async def database_quoting(world: World) -> list[Probe]:
    """The driver's error quotes the values of the statement."""
    order = await world.shop.order(50_000)
    customer_id = order["customer_id"]
    probe = await probes.opened(world, "issue_refund, then mended", Code.OK, customer_id, accounts=2, own_failure=True)
    arguments = probes.arguments_of_refund(world, order, probes.FREE)
    kind = asyncpg.PostgresConnectionError
    with breaking(world, "ledger.admission.Admissions.admit", kind=kind) as called:
        posting = asyncio.create_task(probes.post(world, probe, "issue_refund", arguments))
        await called.wait()
        with breaking(world, "ledger.calls.Calls.statuses", kind=kind):
            await posting
        assert probe.reply["code"] == Code.TEMPORARY_FAILURE, probe.reply
    await probes.post(world, probe, "issue_refund", arguments)
    await probes.ask(world, probe)
    await probes.rest(world, probe)
    return [probe]


async def temporal_away(world: World) -> list[Probe]:
    """Temporal cannot be reached: nothing is started, and a person's decision stands without it."""
    reason = f"{world.planted.reason.text} {world.planted.card.text}"
    held = await probes.held(world, "denied meanwhile", Code.USER_DENIED)
    order = await world.shop.order(50_000)
    probe = await probes.opened(world, "issue_refund", Code.TEMPORARY_FAILURE, order["customer_id"], accounts=1)
    world.temporal_line.cut()
    try:
        await asyncio.gather(
            probes.decide(world, held, "deny", reason),
            probes.post(world, probe, "issue_refund", probes.arguments_of_refund(world, order, probes.FREE)),
        )
    finally:
        await world.temporal_line.mend()
    probe.workflow_id = None
    await probes.ask(world, held)
    return [held, probe]


async def vault_locked(world: World) -> list[Probe]:
    """The vault is locked: when it is asked for; between that and the facts; and right before an effect is sent."""
    played: list[Probe] = []
    async with _unlocked_after(world) as lock:
        await lock()
        for play in (probes.refund, probes.cancel, probes.lookup):
            played.append(await _refused(world, play))
    for play in (probes.refund, probes.lookup):
        async with _unlocked_after(world) as lock:
            real = world.board.real
            reading = replace(real, payments=_Locking(real.payments, lock), orders=_Locking(real.orders, lock))
            with world.board.led(reading=reading):
                played.append(await _refused(world, play))
    for play in (probes.refund, probes.approved_refund, probes.cancel):
        async with _unlocked_after(world) as lock:
            real = world.board.real
            sending = replace(real, payments=_Locking(real.payments, lock), orders=_Locking(real.orders, lock))
            with world.board.led(sending=sending):
                played.append(await _refused(world, play))
    return played


async def _refused(world: World, play: Callable[..., Awaitable[Probe]]) -> Probe:
    probe = await play(world, Code.VAULT_LOCKED, accounts=1)
    await probes.rest(world, probe)
    return probe


class _Locking:
    """A remote system right before whose use the vault is locked."""

    def __init__(self, real: Any, lock: Callable[[], Awaitable[None]]) -> None:
        self._real = real
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        used = getattr(self._real, name)
        if name in ("name", "key_validity"):
            return used

        async def use(*given: Any) -> Any:
            await self._lock()
            return await used(*given)

        return use


@asynccontextmanager
async def _unlocked_after(world: World) -> AsyncGenerator[Callable[[], Awaitable[None]]]:
    """Gives what locks the vault."""
    switches, was_locked = world.ledger.switches, False

    async def lock() -> None:
        nonlocal was_locked
        if not was_locked:
            was_locked = True
            await switches.turn_off(TENANT, "vault", by="olga", reason="an example")

    try:
        yield lock
    finally:
        assert await switches.turn_on(TENANT, "vault", lambda *_: Reach(tenant=TENANT), by="olga", reason="it is over")
