"""`counterseal ledger retention`: how long what events say is kept."""

import asyncio
from pathlib import Path
from typing import Annotated

import asyncpg
import typer

from ledger.retention import EVENT_CLASSES, Rule, Rules
from runtime.cli.connecting import DataOption, JsonOption, find_place, open_database, whoami
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table

_LONGEST = 36_500


def retention(
    event_class: Annotated[
        str | None,
        typer.Argument(metavar="[CLASS]", help="A type of events (call.proposed), or all that begin so (call)"),
    ] = None,
    days: Annotated[int | None, typer.Option(min=1, max=_LONGEST, help="Keep what they say for so many days")] = None,
    for_ever: Annotated[bool, typer.Option("--for-ever", help="Keep it for ever, as without a rule")] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    database_url: Annotated[
        str | None, typer.Option(help="The database as its owner", show_default="COUNTERSEAL_DATABASE_URL")
    ] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List how long what events say is kept; or set it for a class, as the owner of the tables. What is older goes, in
    the background, and never comes back; that it happened, when, and its hash stay, and the ledger verifies as before.
    Calls that have not ended keep theirs."""
    if (event_class is None) != (days is None and not for_ever) or (days is not None and for_ever):
        raise typer.BadParameter("give CLASS with --days or --for-ever, or nothing of them")
    if event_class is not None and event_class not in EVENT_CLASSES:
        raise typer.BadParameter(f"one of {', '.join(sorted(EVENT_CLASSES))}", param_hint="CLASS")
    rules = asyncio.run(_change(event_class, days, data, database_url, ask=not yes))
    if as_json:
        print_json({"retention": [{name: getattr(rule, name) for name in Rule.__slots__} for rule in rules]})
        return
    if not rules:
        console().print("Everything is kept for ever.")
        return
    shown = table("Class", "Days", "Set by", "Set")
    for rule in rules:
        shown.add_row(rule.event_class, str(rule.keep_days), rule.set_by, instant(rule.set_at))
    console().print(shown)


async def _change(
    event_class: str | None, days: int | None, data: Path | None, database_url: str | None, *, ask: bool
) -> list[Rule]:
    """The rules after it."""
    async with open_database(find_place(data, database_url)) as database:
        rules = Rules(database.system)
        if event_class is None:
            return await rules.all()
        wanted = {rule.event_class: rule.keep_days for rule in await rules.all()}
        if days is not None and ask and (due := await rules.due(wanted | {event_class: days})):
            typer.confirm(f"What {due} events say is older and goes for ever: go on?", abort=True, err=True)
        try:
            if days is None:
                await rules.unset(event_class)
            else:
                await rules.set(event_class, days, by=whoami())
        except asyncpg.InsufficientPrivilegeError:
            raise CommandError("only the owner of the tables says what is kept: give its --database-url") from None
        return await rules.all()
