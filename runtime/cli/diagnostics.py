"""`counterseal diagnostics`: what is known of a failure or refusal; opening it is recorded."""

from typing import Annotated

import typer
from rich.text import Text

from api.pages.diagnosis import tell
from ledger.ledger import Ledger
from runtime.cli.connecting import DataOption, JsonOption, whoami, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, plain, print_json
from schemas.diagnostics import Diagnostic
from schemas.events import DiagnosticOpened

app = typer.Typer(add_completion=False)

RequestId = Annotated[str, typer.Argument(help="The request_id that the caller was given, act_…")]


@app.command(epilog="Example: counterseal diagnostics act_0123456789abcdef0123456789abcdef")
def diagnostics(request_id: RequestId, data: DataOption = None, as_json: JsonOption = False) -> None:
    """Open the protected diagnostics of a request: how far it went and what went wrong. Who opens them is recorded."""
    opened = DiagnosticOpened(principal=whoami(), through="command_line")
    found = with_ledger(data, lambda ledger: _open(ledger, request_id, opened))
    if not found:
        raise CommandError(f"nothing is kept of {request_id}: it went well, is too old, or was never asked here")
    if as_json:
        print_json({"request_id": request_id, "diagnostics": [_as_json(each) for each in found]})
        return
    for each in found:
        _print(each)


async def _open(ledger: Ledger, request_id: str, opened: DiagnosticOpened) -> list[Diagnostic]:
    return await ledger.diagnostics.open(request_id, opened, tenant=None)


def _as_json(diagnostic: Diagnostic) -> dict[str, object]:
    told = tell(diagnostic)
    content = diagnostic.model_dump(mode="json", exclude_none=True)
    return {**content, "account": told.sentences, "boundaries": {each.name: each.after_ms for each in told.boundaries}}


def _print(diagnostic: Diagnostic) -> None:
    told, terminal = tell(diagnostic), console()
    terminal.print(Text(told.headline, style="bold"))
    for each in told.boundaries:
        reached = "not reached" if each.after_ms is None else f"after {each.after_ms} ms"
        terminal.print(Text(f"  {'✓' if each.after_ms is not None else '–'} {each.title:<22}{reached}"))
    for sentence in told.sentences:
        terminal.print(Text(f"  {plain(sentence)}"))
    for raised in told.raised:
        terminal.print(Text(f"\n{plain(raised.traceback)}", style="dim"))
    terminal.print()
