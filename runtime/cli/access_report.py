"""How `counterseal report access` prints who was given what, or shown of Temporal's histories, and when."""

from collections.abc import Sequence

from pydantic import JsonValue

from ledger.chain import EventRow
from ledger.ledger import Ledger
from ledger.policies import STREAM
from ledger.streams import access_of, decodings_of
from ledger.switches import stream_of
from runtime.cli.output import console, exact, plain, table
from schemas.events import HistoryDecoded, Recorded
from schemas.switches import EVERYONE

Found = Sequence[tuple[EventRow, Recorded]]


async def read(ledger: Ledger, tenant: str | None) -> Found:
    """The events of accounts, tokens, switches and policies, of a tenant or everyone, in the order of time."""
    tenants = [tenant] if tenant is not None else await ledger.streams.tenants()
    streams = [access_of(each) for each in tenants] + [stream_of(each) for each in (*tenants, EVERYONE)]
    return await ledger.streams.all_of([*streams, STREAM])


async def read_shown(ledger: Ledger, tenant: str | None) -> Found:
    """The events of payloads of histories that were shown, in the order of time."""
    tenants = [tenant] if tenant is not None else await ledger.streams.tenants()
    return await ledger.streams.all_of([decodings_of(each) for each in tenants])


def as_json(found: Found) -> dict[str, object]:
    return {
        "events": [
            {
                "at": row.at,
                "tenant": row.tenant,
                "stream": row.request_id,
                "n": row.n,
                "type": row.type,
                "hash": row.hash.hex(),
                "body": _body(event),
            }
            for row, event in found
        ]
    }


def show(found: Found) -> None:
    shown = table("Time", "Tenant", "Event", "What")
    for row, event in found:
        body = _body(event)
        if isinstance(event, HistoryDecoded):
            body["payloads"] = len(event.payloads)
        said = ", ".join(f"{name} {_text(value)}" for name, value in body.items() if value not in (None, []))
        shown.add_row(exact(row.at), plain(row.tenant), row.type, plain(said))
    console().print(shown)


def _body(event: Recorded) -> dict[str, JsonValue]:
    return {name: value for name, value in event.model_dump(mode="json").items() if name != "type"}


def _text(value: JsonValue) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
