"""`counterseal calls show --incident`: the questions after an incident, of one call or of all calls of a trace."""

import re
from dataclasses import dataclass
from pathlib import Path

import typer
from rich.text import Text

from ledger.calls import Outline, UnknownCall
from ledger.chain import break_in
from ledger.ledger import Ledger
from ledger.signing import DecisionVerifier
from runtime.cli.connecting import find_place, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.incident import Answer, Case, Events, answers
from runtime.cli.output import console, exact, plain, print_json
from tools.catalog import Catalog, CatalogError

_TRACE_ID = re.compile(r"[0-9a-f]{32}")
_MOST = 1000
_DIGEST_SHOWN = 12
_VERDICTS = {"yes": "Yes", "no": "No", "not_known": "Not known", "none": ""}


@dataclass(frozen=True, slots=True)
class _Found:
    """A call with its events, which are none where its chain of hashes is `broken`."""

    call: Outline
    events: Events
    broken: str | None


def investigate(id_: str, data: Path | None, tools: Path | None, *, as_json: bool) -> None:
    """Print the answers. Exits 1 when a chain of hashes does not hold: nothing can be answered from it."""
    catalog = _catalog(tools)
    verifier = DecisionVerifier.of(find_place(data).master())
    found = with_ledger(data, lambda ledger: _read(ledger, id_))
    told = [(each, _answers(each, catalog, verifier)) for each in found]
    if as_json:
        print_json({"id": id_, "calls": [_as_json(each, said) for each, said in told]})
    else:
        for each, said in told:
            _print(each, said)
    if any(each.broken for each in found):
        raise typer.Exit(1)


async def _read(ledger: Ledger, id_: str) -> list[_Found]:
    """Raises UnknownCall."""
    request_ids = await ledger.calls.in_trace(id_, _MOST) if _TRACE_ID.fullmatch(id_) else [id_]
    if not request_ids:
        raise UnknownCall(id_)
    return [await _one(ledger, each) for each in request_ids]


async def _one(ledger: Ledger, request_id: str) -> _Found:
    while True:
        call = await ledger.calls.outline(request_id)
        broken = break_in(await ledger.calls.rows(request_id), call.head)
        if (await ledger.calls.outline(request_id)).head == call.head:  # else it moved on meanwhile
            break
    return _Found(call, [] if broken else await ledger.calls.events(request_id), broken)


def _answers(found: _Found, catalog: Catalog, verifier: DecisionVerifier) -> list[Answer]:
    if found.broken:
        return []
    entry = catalog.get(found.call.tool)
    return answers(Case(found.events, entry and entry.manifest, verifier))


def _catalog(tools: Path | None) -> Catalog:
    """Raises CommandError."""
    try:
        return Catalog.load(*([] if tools is None else [tools]))
    except CatalogError as error:
        raise CommandError("; ".join(error.problems)) from None


def _print(found: _Found, said: list[Answer]) -> None:
    terminal, call = console(), found.call
    terminal.print(Text(f"{call.tool}   {call.request_id}   {call.status} ({call.code})"))
    if found.broken:
        terminal.print(Text(f"The chain of hashes is broken: {found.broken}. Nothing can be answered from it."))
        return
    for each in said:
        verdict = _VERDICTS[each.verdict]
        terminal.print(Text(f"\n{each.asked}"))
        terminal.print(Text(plain(f"  {verdict}{': ' if verdict else ''}{each.said}.")), soft_wrap=True)
        for event in each.evidence:
            terminal.print(Text(f"    {event.n}  {event.type}  {exact(event.at)}  {event.digest[:_DIGEST_SHOWN]}"))
    terminal.print(Text(f"\nThe chain of {len(found.events)} hashes holds.\n"))


def _as_json(found: _Found, said: list[Answer]) -> dict[str, object]:
    call = found.call
    return {
        "request_id": call.request_id,
        "tool": call.tool,
        "tenant": call.tenant,
        "status": call.status,
        "code": call.code,
        "chain": {"holds": found.broken is None, "problem": found.broken},
        "answers": [
            {
                "question": each.question,
                "asked": each.asked,
                "answer": each.verdict,
                "said": each.said,
                "evidence": [
                    {"n": event.n, "type": event.type, "at": event.at, "digest": event.digest}
                    for event in each.evidence
                ],
            }
            for each in said
        ],
    }
