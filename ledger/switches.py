"""Kill switches. They stop what has not begun: no write begins after the change was acknowledged."""

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime

import asyncpg

from ledger.calls import Calls
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Connection, Pool
from ledger.queries import load
from ledger.records import Step
from ledger.streams import NO_CUSTOMER, append
from schemas.events import ApprovalResumed, SwitchChanged
from schemas.switches import EVERYONE, PERMIT, Deadlines, SwitchOff

_SQL = load("switches")
_APPROVALS = load("approvals")


@dataclass(frozen=True, slots=True)
class Reach:
    """The calls that a switch covers, as plain columns tell them; None is all of them."""

    tenant: str | None = None
    tools: tuple[str, ...] | None = None
    agent_id: str | None = None
    run_id: str | None = None


ReachOf = Callable[[str, str], Reach]
"""What the switch of a tenant, by its name, covers."""


@dataclass(frozen=True, slots=True)
class Covered:
    """What a switch would stop right now. `unknown` outcomes go on being looked up, but nothing is sent again."""

    parked: int
    unsent: int
    unknown: int
    runs: int


def stream_of(tenant: str) -> str:
    """Where the changes of a tenant's switches are kept."""
    return f"switches/{tenant}"


class Switches:
    """The switches. `reserved` is a connection that nothing else uses: they work when all the others are taken."""

    def __init__(self, reserved: Pool, keys: DataKeys) -> None:
        self._reserved = reserved
        self._keys = keys
        self._calls = Calls(reserved, keys)

    async def off(self, tenant: str | None) -> list[SwitchOff]:
        """What is off for a tenant, or for anyone; longest first."""
        return [SwitchOff(**row) for row in await self._reserved.fetch(_SQL["off_switches"], tenant)]

    async def covered(self, reach: Reach) -> Covered:
        row = await self._reserved.fetchrow(_SQL["covered"], *_columns(reach))
        return Covered(**row) if row else Covered(0, 0, 0, 0)

    async def turn_off(
        self, tenant: str, name: str, *, by: str, reason: str, deadlines: Deadlines = "run"
    ) -> SwitchOff:
        """Turn a switch off, for a tenant or for everyone (`*`). Once this returns no write begins that it covers.

        Said twice, it counts and is recorded once.
        """
        async with self._reserved.acquire() as connection:
            await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                off_at = await connection.fetchval(_SQL["turn_off"], tenant, name, by, reason, deadlines)
                if off_at is None:
                    off_at = await connection.fetchval(_SQL["off_since"], tenant, name)
                else:
                    changed = SwitchChanged(switch=name, off=True, by=by, reason=reason, deadlines=deadlines)
                    await append(connection, self._keys, tenant, stream_of(tenant), [changed])
        await asyncio.sleep(PERMIT.total_seconds())
        return SwitchOff(tenant=tenant, name=name, off_at=off_at, off_by=by, reason=reason, deadlines=deadlines)

    async def turn_on(self, tenant: str, name: str, reach_of: ReachOf, *, by: str, reason: str) -> bool:
        """Turn a switch on again; whether it was off. Deadlines that it paused go on from where they were, if no other
        switch pauses them."""
        async with self._reserved.acquire() as connection:
            await self._keys.for_subject(connection, tenant, NO_CUSTOMER)
            async with connection.transaction():
                was = await connection.fetchrow(_SQL["turn_on"], tenant, name)
                if was is None:
                    return False
                if was["deadlines"] == "pause":
                    others = [SwitchOff(**row) for row in await connection.fetch(_SQL["off_switches"], _named(tenant))]
                    pausing = [
                        (each.off_at, reach_of(each.tenant, each.name)) for each in others if each.deadlines == "pause"
                    ]
                    columns = _columns(reach_of(tenant, name))
                    paused = await connection.fetch(_SQL["paused"], *columns, was["off_at"], _as_json(pausing))
                    for row in paused:
                        await self._resume(connection, row, name)
                changed = SwitchChanged(switch=name, off=False, by=by, reason=reason, deadlines=was["deadlines"])
                await append(connection, self._keys, tenant, stream_of(tenant), [changed])
                return True

    async def _resume(self, connection: Connection, paused: asyncpg.Record, switch: str) -> None:
        """Let a deadline go on, if the call waits for it still."""
        try:
            record, now = await self._calls.lock(connection, paused["request_id"])
        except KeyDestroyed:
            return  # nobody can read it to decide it
        row = await connection.fetchrow(_APPROVALS["lock_approval"], paused["approval_id"])
        if row is None or row["status"] != "open":
            return
        resumed = ApprovalResumed(
            approval_id=row["approval_id"], switch=switch, expires_at=row["expires_at"] + paused["added"]
        )
        await self._calls.write(connection, record, Step([resumed]), now)


class Permits:
    """What lets a write begin: none of the switches that cover it is off."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def first_off(self, tenant: str, names: Sequence[str]) -> str | None:
        """The first of these switches that is off for a tenant."""
        return await self._pool.fetchval(_SQL["first_off"], tenant, names)

    async def off(self, tenant: str, names: Sequence[str]) -> list[SwitchOff]:
        """Those of these switches that are off for a tenant; longest first."""
        return [SwitchOff(**row) for row in await self._pool.fetch(_SQL["covering"], tenant, names)]

    async def paused(self, tenant: str, names: Sequence[str]) -> bool:
        """Whether the deadlines of a call that these switches cover are paused."""
        return await self._pool.fetchval(_SQL["pauses"], tenant, names) is True


def _named(tenant: str | None) -> str | None:
    return None if tenant == EVERYONE else tenant


def _columns(reach: Reach) -> tuple[object, ...]:
    return _named(reach.tenant), None if reach.tools is None else list(reach.tools), reach.agent_id, reach.run_id


def _as_json(pausing: Sequence[tuple[datetime, Reach]]) -> str:
    names = ("tenant", "tools", "agent_id", "run_id", "off_at")
    return json.dumps(
        [dict(zip(names, (*_columns(reach), off_at.isoformat()), strict=True)) for off_at, reach in pausing]
    )
