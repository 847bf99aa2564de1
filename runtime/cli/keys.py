"""`counterseal keys`: which master keys there are, what still needs them, and changing keys while the service runs."""

import asyncio
import base64
import re
import secrets
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn
from temporalio.service import RPCError

from ledger.keys import KeyMaterialError, MasterKey
from ledger.ledger import Ledger
from ledger.rewrapping import Held, Rewrapped
from runtime.cli.connecting import DataOption, JsonOption, Place, find_place, open_ledger, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json, table
from runtime.cli.temporal import open_temporal
from runtime.codec import payload_key_id
from runtime.master import add_key, use_key

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Master keys and customers' data keys.")

_WORKFLOWS = "open workflows"
_NAMED = re.compile(r'"encryption-key-id":\s*"([A-Za-z0-9+/=]+)"')
_RUNNING = "ExecutionStatus = 'Running'"


@app.command(name="list", epilog="Example: counterseal keys list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the master keys by id, the current one first, never a key itself, and what still needs each: what it sealed
    in the database, decisions that wait to be carried out, and Temporal's open workflows. A former key that nothing
    needs may be removed; one that `rotate --prepare` just made is not needed yet."""
    place = find_place(data)
    master = place.master()
    held = asyncio.run(_held(place, master, data))
    keys: list[dict[str, Any]] = [
        {"key_id": key.key_id, "current": n == 0, "needed_by": held.by(key.key_id)} for n, key in enumerate(master.keys)
    ]
    if unnamed := held.by(None):
        keys.append({"key_id": None, "current": False, "needed_by": unnamed})
    if as_json:
        print_json({"keys": keys})
        return
    shown = table("Key", "Use", "Needed by")
    for each in keys:
        needs = ", ".join(f"{count} {kind}" for kind, count in each["needed_by"].items())
        use = "seals and opens" if each["current"] else "opens" if each["key_id"] else "by trying"
        idle = "" if each["current"] else "nothing yet, or nothing any more"
        shown.add_row(each["key_id"] or "names no key", use, needs or idle)
    console().print(shown)
    if unnamed:
        console().print(
            "What names no key may be under any of them: keep them all until `counterseal keys rewrap` ran."
        )


@app.command(epilog="Example: counterseal keys rotate --prepare")
def rotate(
    prepare: Annotated[bool, typer.Option("--prepare", help="Make a key that only opens, for now")] = False,
    use: Annotated[str | None, typer.Option(metavar="KEY_ID", help="Seal with this key of the file, mk_…")] = None,
    customer: Annotated[str | None, typer.Option(help="A new data key for this customer, instead")] = None,
    tenant: Annotated[str | None, typer.Option(help="Whose customer")] = None,
    data: DataOption = None,
) -> None:
    """Change the master key: make a new one and have it seal from now on, where one process reads the file; or in two
    steps where there are several, --prepare, then, once each was restarted, --use. What is sealed is put under it by
    `counterseal keys rewrap`. With --customer and --tenant, change a customer's data key."""
    if (customer is None) != (tenant is None) or (customer is not None and (prepare or use)) or (prepare and use):
        raise typer.BadParameter("give --prepare, or --use, or --customer with --tenant, or none of them")
    if customer is not None and tenant is not None:
        _renew(customer, tenant, data)
        return
    place = find_place(data)
    file, kms = place.key_file()
    try:
        if use is not None:
            use_key(file, kms, use)
            typer.echo(f"{use} seals from now on, in every process that is started again")
            return
        made = add_key(file, kms, base64.b64encode(secrets.token_bytes(32)).decode(), first=not prepare)
    except KeyMaterialError as error:
        raise CommandError(str(error)) from None
    step = "restart every process, then `counterseal keys rotate --use` it" if prepare else "restart the process"
    typer.echo(f"{made} is in {file}: {step}")


@app.command(epilog="Example: counterseal keys rewrap")
def rewrap(data: DataOption = None, as_json: JsonOption = False) -> None:
    """Put everything that a former master key sealed under the current one, while the service runs; exit 1 when
    something opens under none of them. Broken off, it goes on where it was when it is run again."""
    place = find_place(data)
    result = asyncio.run(_rewrap(place))
    if as_json:
        print_json({"rewrapped": dict(result.done), "not_opened": dict(result.closed)})
    else:
        for kind, count in result.done.items():
            typer.echo(f"{count} {kind} put under {place.master().current.key_id}")
        if not result.done.total():
            typer.echo("nothing was under another key")
    if result.closed.total():
        named = ", ".join(f"{count} {kind}" for kind, count in result.closed.items())
        raise CommandError(f"under none of the keys that are here: {named}")


def _renew(customer: str, tenant: str, data: Path | None) -> None:
    async def renew(ledger: Ledger) -> bool:
        async with ledger.system.acquire() as connection:
            return await ledger.keys.renew(connection, tenant, customer)

    if not with_ledger(data, renew):
        raise CommandError("there is no data key of such a customer")
    typer.echo("within a minute every process seals with a new key; what there is stays readable")


async def _held(place: Place, master: MasterKey, data: Path | None) -> Held:
    async with open_ledger(place) as ledger:
        held = await ledger.rewrapping.held()
    return Held(held.kinds | {_WORKFLOWS: await _workflows(master, data)})


async def _workflows(master: MasterKey, data: Path | None, query: str = _RUNNING) -> Counter[str | None]:
    """How many workflows have payloads under which key; one counts for each that it has some under."""
    names = {payload_key_id(key): key.key_id for key in master.keys}
    client = await open_temporal(master, data)
    counts: Counter[str | None] = Counter()
    try:
        async for history in client.list_workflows(query).map_histories():
            found = {base64.b64decode(each).decode() for each in _NAMED.findall(history.to_json())}
            counts.update({names.get(each) for each in found})
    except RPCError as problem:
        raise CommandError(f"Temporal did not answer the query ({problem.status.name.lower()})") from None
    return counts


async def _rewrap(place: Place) -> Rewrapped:
    errors = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.completed} looked at"))
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("rewrap", total=None)
        async with open_ledger(place) as ledger:
            return await ledger.rewrapping.rewrap(lambda count: progress.advance(task, count))
