"""`counterseal notices`: what people were told, sending again what they were not, and trying a channel out."""

from dataclasses import fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ledger.ledger import Ledger
from ledger.notices import Notice
from notices.channel import NotDeliveredError
from notices.wording import trial
from runtime.cli.connecting import DataOption, JsonOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table
from runtime.notices import notices_file, open_telling
from runtime.settings import SettingsError
from schemas.ids import is_notice_id, new_notice_id

app = typer.Typer(no_args_is_help=True, add_completion=False, help="What people are told without having asked.")

_MOST = 1000


@app.command(name="list", epilog="Example: counterseal notices list --undelivered")
def list_(
    undelivered: Annotated[bool, typer.Option("--undelivered", help="Only those that were given up")] = False,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's; otherwise everyone's")] = None,
    limit: Annotated[int, typer.Option(min=1, max=_MOST, help="At most so many, the newest")] = 100,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List notices, newest first. They name ids; the words are made when they are sent."""
    state = "undelivered" if undelivered else None
    found = with_ledger(data, lambda ledger: ledger.notices.recent(tenant=tenant, state=state, limit=limit))
    if as_json:
        names = [each.name for each in fields(Notice)]
        print_json({"notices": [{name: getattr(each, name) for name in names} for each in found]})
        return
    shown = table("Notice", "Told", "Over", "State", "Tries", "Problem", "Since", "About")
    for each in found:
        about = each.approval_id or each.request_id or each.approvers or ""
        tries, since = str(each.attempts), instant(each.at)
        shown.add_row(each.notice_id, each.topic, each.channel, each.state, tries, each.problem or "", since, about)
    console().print(shown)


@app.command(epilog="Example: counterseal notices retry ntc_0123456789abcdef0123456789abcdef")
def retry(notice_id: Annotated[str, typer.Argument(help="The notice's id, ntc_…")], data: DataOption = None) -> None:
    """Have a notice sent again that was given up; exit 1 when there is none."""
    if not is_notice_id(notice_id):
        raise typer.BadParameter("a notice's id is ntc_ and 32 hexadecimal digits", param_hint="NOTICE_ID")
    if not with_ledger(data, lambda ledger: ledger.notices.retry(notice_id)):
        raise CommandError("there is no such notice that was given up")
    console().print(f"{notice_id} is sent again.")


@app.command(name="test", epilog="Example: counterseal notices test finance-mail --file notices.yaml")
def try_out(
    channel: Annotated[str, typer.Argument(help="A channel of the file")],
    file: Annotated[Path, typer.Option(envvar="COUNTERSEAL_NOTICES_FILE", help="The notices file", show_default=False)],
    tenant: Annotated[str, typer.Option(help="Whose credential of the vault is used")] = "default",
    data: DataOption = None,
) -> None:
    """Send a test over a channel, now and once, from here; exit 1 when it was not taken. Credentials come from this
    command's environment, and from the vault."""
    try:
        content = notices_file(file)
    except SettingsError as error:
        raise CommandError(str(error).removeprefix("COUNTERSEAL_NOTICES_FILE: ")) from None
    if channel not in content.channels:
        raise CommandError(f"there is no channel {channel} in the file; it has {', '.join(content.channels) or 'none'}")

    async def send(ledger: Ledger) -> None:
        async with open_telling(content, ledger.credentials, "") as telling:
            await telling.channels[channel].send(trial(channel, new_notice_id(), tenant, datetime.now(UTC)))

    try:
        with_ledger(data, send)
    except SettingsError as error:
        raise CommandError(str(error).removeprefix("COUNTERSEAL_NOTICES_FILE: ")) from None
    except NotDeliveredError as failure:
        raise CommandError(f"{channel} did not take it: {failure.problem.replace('_', ' ')}") from None
    console().print(f"{channel} took it.")
