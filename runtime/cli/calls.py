"""`counterseal calls`: what agents asked for and what became of it, from the ledger."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, get_args

import typer
from rich.text import Text

from api.pages.links import trace_link, workflow_link
from api.pages.story import story
from ledger.calls import Outline
from ledger.chain import EventRow, break_in
from ledger.ledger import Ledger
from ledger.records import CallDetails
from runtime.cli.chains import event_rows
from runtime.cli.connecting import DataOption, JsonOption, Links, find_links, with_ledger
from runtime.cli.exporting import event_json, export
from runtime.cli.investigating import investigate
from runtime.cli.output import console, exact, instant, plain, print_json, table
from schemas.codes import Status
from schemas.events import ApprovalRequested, CallDecided, Pruned, Recorded

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Calls, as the ledger has them.")

RequestId = Annotated[str, typer.Argument(help="The call's request_id, act_…")]
_HASH_SHOWN = 12
_STATUSES = get_args(Status)


@app.command(name="list", epilog="Example: counterseal calls list --status pending_approval")
def list_(
    status: Annotated[str | None, typer.Option(help=f"One of {', '.join(_STATUSES)}")] = None,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's")] = None,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="How many at most")] = 50,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """List calls, newest first; nothing that is encrypted is shown."""
    if status is not None and status not in _STATUSES:
        raise typer.BadParameter(f"status is one of {', '.join(_STATUSES)}")
    rows = with_ledger(data, lambda ledger: ledger.calls.recent(tenant=tenant, status=status, limit=limit))
    if as_json:
        print_json({"calls": rows})
        return
    shown = table("Request", "Tool", "Verdict", "Rule", "Status", "Code", "Proposed")
    for row in rows:
        named = [str(row[name] or "") for name in ("request_id", "tool", "verdict", "rule", "status", "code")]
        if row["erased"]:
            named[4] += " (erased)"
        shown.add_row(*named, instant(row["created_at"]))  # pyright: ignore[reportArgumentType]  # a timestamptz
    console().print(shown)


@app.command(epilog="Example: counterseal calls show act_0123456789abcdef0123456789abcdef")
def show(
    request_id: Annotated[str, typer.Argument(help="The call's request_id, act_…; with --incident a trace's id, too")],
    data: DataOption = None,
    as_json: JsonOption = False,
    incident: Annotated[bool, typer.Option("--incident", help="Answer what is asked after an incident")] = False,
    tools: Annotated[
        Path | None, typer.Option(envvar="COUNTERSEAL_TOOLS_PATH", help="A folder with a team's own tools")
    ] = None,
) -> None:
    """Tell a call as a story, and verify its chain of hashes; exit 1 when it does not hold."""
    if incident:
        investigate(request_id, data, tools, as_json=as_json)
        return
    links = find_links(data)
    read = with_ledger(data, lambda ledger: _read(ledger, request_id))
    if as_json:
        print_json(_as_json(read, links))
    else:
        _print_story(read, links)
    if read.broken:
        raise typer.Exit(1)


@app.command(epilog="Example: counterseal calls events act_0123456789abcdef0123456789abcdef --json")
def events(request_id: RequestId, data: DataOption = None, as_json: JsonOption = False) -> None:
    """List a call's events; with --json, their decrypted bodies too."""
    found = with_ledger(data, lambda ledger: ledger.calls.events(request_id))
    if as_json:
        opened = [
            event_json(row, None if isinstance(event, Pruned) else event.model_dump(mode="json"))
            for row, event in found
        ]
        print_json({"request_id": request_id, "events": opened})
        return
    shown = table("n", "Time", "Type", "Hash")
    for row, _ in found:
        shown.add_row(str(row.n), exact(row.at), row.type, row.hash.hex()[:_HASH_SHOWN])
    console().print(shown)


app.command(epilog="Example: counterseal calls export --out calls.jsonl")(export)


@dataclass(frozen=True, slots=True)
class _Read:
    """A call, what of it can be read (None where its customer was erased), its events, the seals that they are in by
    their numbers, and where its chain breaks."""

    call: Outline
    details: CallDetails | None
    events: list[tuple[EventRow, Recorded]]
    seals: dict[int, int]
    broken: str | None


async def _read(ledger: Ledger, request_id: str) -> _Read:
    """The chain is checked first: an altered body cannot be opened."""
    while True:
        call = await ledger.calls.outline(request_id)
        broken = break_in(await event_rows(ledger, request_id), call.head)
        if (await ledger.calls.outline(request_id)).head == call.head:  # else it moved on meanwhile
            break
    details = None if call.erased else (await ledger.calls.read(request_id)).details
    events = [] if broken else await ledger.calls.events(request_id)
    return _Read(call, details, events, await ledger.calls.seals(request_id), broken)


def _print_story(read: _Read, links: Links) -> None:
    call, terminal = read.call, console()
    version = read.details.call.tool_version if read.details else ""
    terminal.print(Text(f"{call.tool} {version}   {call.request_id}"))
    terminal.print(Text(plain(f"agent {call.agent_id}, run {call.run_id}, tenant {call.tenant}")))
    terminal.print(Text(f"{call.status} ({call.code})"))
    if call.erased:
        terminal.print(Text("Its customer was erased, and with them what it was about."))
    if read.broken:
        terminal.print(Text(f"The chain of hashes is broken: {read.broken}."))
        return
    shown = table("n", "Time", "What happened", "Who", "Event", "Hash", "Seal")
    for told, (row, event) in zip(story(read.events), read.events, strict=True):
        said = plain(told.sentence + _detail(event))
        seal = str(read.seals.get(row.n, ""))
        shown.add_row(str(row.n), exact(row.at), said, plain(told.by), row.type, row.hash.hex()[:_HASH_SHOWN], seal)
    terminal.print(shown)
    terminal.print(Text(f"The chain of {len(read.events)} hashes holds."))
    for name, value in _elsewhere(read, links).items():
        if value is not None:
            terminal.print(Text(f"{name}: {value}"), soft_wrap=True)


def _elsewhere(read: _Read, links: Links) -> dict[str, str | None]:
    """Where else there is something about it: None where nobody says where that is."""
    trace_id = read.details.call.trace_id if read.details else None
    asked = (event.approval_id for _, event in read.events if isinstance(event, ApprovalRequested))
    return {
        "approval": next(asked, None),
        "trace": trace_id,
        "trace_url": trace_link(links.trace_url, trace_id),
        "temporal_url": workflow_link(links.temporal_ui_url, links.namespace, read.call.workflow_id),
    }


def _detail(event: Recorded) -> str:
    if isinstance(event, CallDecided):
        return f" of policy {event.decision.policy_version}: {event.decision.because}"
    return ""


def _as_json(read: _Read, links: Links) -> dict[str, object]:
    call = read.call
    return {
        "request_id": call.request_id,
        "tool": call.tool,
        "tool_version": read.details.call.tool_version if read.details else None,
        "erased": call.erased,
        "tenant": call.tenant,
        "agent_id": call.agent_id,
        "run_id": call.run_id,
        "status": call.status,
        "code": call.code,
        "verdict": call.verdict,
        "policy_version": call.policy_version,
        "created_at": call.created_at,
        "updated_at": call.updated_at,
        "workflow_id": call.workflow_id,
        **_elsewhere(read, links),
        "facts": read.details.facts if read.details else None,
        "story": [
            {
                "n": row.n,
                "at": row.at,
                "type": row.type,
                "by": each.by,
                "sentence": each.sentence + _detail(event),
                "hash": row.hash.hex(),
                "seal": read.seals.get(row.n),
            }
            for each, (row, event) in zip(story(read.events), read.events, strict=True)
        ],
        "chain": {"holds": read.broken is None, "problem": read.broken},
    }
