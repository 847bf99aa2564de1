"""`counterseal calls export`: every call with its decrypted events, as JSON lines."""

import asyncio
import json
import os
import secrets
from collections.abc import AsyncGenerator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from ledger.chain import EventRow, Head, body_context, break_in
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Connection
from ledger.queries import load
from runtime.cli.connecting import DataOption, Place, find_place, open_ledger
from runtime.cli.errors import CommandError

_CALLS, _ALERTS = load("calls"), load("alerts")
_EVERY = 2**31 - 1
_PAGE = 200
_TIMES = ("intended_at", "created_at", "updated_at")
_PLAIN = (
    *("request_id", "tenant", "run_id", "agent_id", "customer_id", "tool", "workflow_id", "status", "code", "verdict"),
    *("rule", "policy_version", "approval_id", "operation_id", "remote_id", "review"),
)


def export(
    out: Annotated[Path, typer.Option(help="The file to write; only you can read it (mode 0600)", dir_okay=False)],
    data: DataOption = None,
) -> None:
    """Write every call of every tenant with its events, decrypted, as JSON lines: the operator's own copy.

    It holds what customers and agents said in readable form: keep it as you keep the ledger's key. One line is one call
    ("record": "call"), newest first, all as of one moment; the last line says how many there are ("record": "end"), so
    that a copy that was cut off shows.
    """
    written = asyncio.run(_export(find_place(data), out))
    typer.echo(f"{written} calls")


async def _export(place: Place, out: Path) -> int:
    """Write the file in one step: it is whole, or what was there before is untouched."""
    building = out.with_name(f".{out.name}.{secrets.token_hex(4)}")
    try:
        descriptor = os.open(building, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error.strerror}") from None
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            count = 0
            async for call in _calls(place):
                file.write(_line(call))
                count += 1
            file.write(_line({"record": "end", "calls": count}))
        building.replace(out)
        return count
    finally:
        building.unlink(missing_ok=True)


async def _calls(place: Place) -> AsyncGenerator[dict[str, Any]]:
    """The calls in one snapshot of the database; never more than a page of them in memory."""
    async with (
        open_ledger(place) as ledger,
        ledger.system.acquire() as connection,
        connection.transaction(isolation="repeatable_read", readonly=True),
    ):
        keys, seen = DataKeys(place.master()), 0
        async for listed in connection.cursor(_CALLS["list_calls"], None, None, _EVERY, prefetch=_PAGE):
            yield await _call(connection, keys, listed["request_id"])
            seen += 1
            if seen % _PAGE == 0:  # it keeps every key that it opened
                keys = DataKeys(place.master())


async def _call(connection: Connection, keys: DataKeys, request_id: str) -> dict[str, Any]:
    row = await connection.fetchrow(_CALLS["read_call"], request_id)
    if row is None:  # one snapshot has it in both or in neither
        raise CommandError(f"{request_id} is listed and not there")
    found = await connection.fetch(_CALLS["events_of"], request_id)
    events = [EventRow.of(each) for each in found]
    problem = break_in(events, Head(row["n"], row["hash"]))
    alerts = await connection.fetch(_ALERTS["alerts_of"], request_id)
    try:
        # An altered body cannot be opened.
        bodies = [None if problem else await _body(connection, keys, event) for event in events]
        erased = False
    except KeyDestroyed:
        bodies, erased = [None] * len(events), True
    return {
        "record": "call",
        **{name: row[name] for name in _PLAIN},
        **{name: _time(row[name]) for name in _TIMES},
        "alerts": [alert["kind"] for alert in alerts],
        "erased": erased,
        "chain": {"holds": problem is None, "problem": problem},
        "events": [event_json(event, body) for event, body in zip(events, bodies, strict=True)],
    }


async def _body(connection: Connection, keys: DataKeys, event: EventRow) -> Any:
    if event.body is None:
        return None
    key = await keys.by_id(connection, event.key_id)
    context = body_context(event.tenant, event.request_id, event.n, event.type, event.version)
    return json.loads(key.open(event.body, context))


def event_json(row: EventRow, body: Any) -> dict[str, object]:
    """An event as commands print it, `body` decrypted; null when it was pruned, or cannot be read."""
    return {
        "n": row.n,
        "at": _time(row.at),
        "type": row.type,
        "version": row.version,
        "previous": row.previous.hex(),
        "hash": row.hash.hex(),
        "body": body,
        "pruned": row.body is None,
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _line(value: dict[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
