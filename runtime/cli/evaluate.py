"""`counterseal eval`: the evaluation set against the real service, and how well requests find their tools."""

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, NamedTuple

import httpx
import typer
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from rich.text import Text

from runtime.cli.connecting import JsonOption, find_place, open_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json, table
from runtime.demo.approver import ApprovalsApi
from runtime.demo.client import AgentApi, ApiProblem, agent_client
from runtime.demo.stack import with_stack
from runtime.evaluation.outside import OUTBOX, SYSTEMS, TOOLS, TOOLS_PATH, environment, outbox
from runtime.evaluation.playing import Outcome, Player
from runtime.evaluation.routing import accuracy, lexical
from runtime.evaluation.scoring import Scores, scores
from runtime.evaluation.slices import EvaluationError, EvaluationFile, Request, Slice, read_set
from runtime.stack.connection import StackInfo, data_folder, find_stack
from runtime.systems import read_systems
from schemas.base import Model
from tools.catalog import Catalog
from tools.manifest import CatalogError

app = typer.Typer(add_completion=False)

BUILT_IN = Path(__file__).parents[1] / "evaluation" / "sets"
_TENANT = "default"
_SECONDS = 10


class Prediction(Model):
    """What a model chose for a request of the set, found by its words."""

    says: str
    tool: str


class Choice(NamedTuple):
    request: Request
    chosen: str


@app.command(name="eval", epilog="Example: counterseal eval --predictions choices.json")
def evaluate(
    files: Annotated[
        list[Path] | None, typer.Argument(help="Files or folders of the set", show_default="the built-in one")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Data folder of a running stack", show_default="a stack of its own")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(help='A model\'s choices, as JSON: [{"says": …, "tool": …}]', show_default="by words alone"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Play the evaluation set and report what held, and how many requests were routed to the right tool.

    Exit 1 when a slice does not hold. Routing is reported, and decides nothing.
    """
    try:
        whole = read_set(files or [BUILT_IN])
    except (EvaluationError, OSError) as problem:
        raise CommandError(str(problem)) from None
    descriptions = _descriptions(data)
    whole, missing = _offered(whole, descriptions)
    choices = _choices(whole.requests, descriptions, predictions)
    try:
        outcomes = asyncio.run(_outcomes(whole.slices, data))
    except (ApiProblem, OSError, ValueError) as problem:
        raise CommandError(str(problem)) from None
    except httpx.HTTPError as problem:
        raise CommandError(f"the sandbox does not answer ({type(problem).__name__})") from None
    found = scores(outcomes)
    routed = accuracy([each.request for each in choices], [each.chosen for each in choices])
    if as_json:
        print_json({**_as_json(whole, outcomes, found, choices, routed), "tools_missing": missing})
    else:
        _print(whole, outcomes, found, choices, routed, console())
        if missing:
            console().print(f"Left out, since these tools are not there: {', '.join(missing)}.")
    if found.slices_held < found.slices:
        raise typer.Exit(1)


def _descriptions(data: Path | None) -> dict[str, str]:
    """What the tools say of themselves, by name: those that the stack of one's own will have, or that the environment
    says a running one has. Raises CommandError."""
    folder = os.environ.get(TOOLS_PATH) or (TOOLS if data is None else None)
    try:
        catalog = Catalog.load(*([] if folder is None else [Path(folder)]))
    except CatalogError as problem:
        raise CommandError(str(problem)) from None
    return {entry.manifest.name: entry.manifest.description for entry in catalog.published()}


def _offered(whole: EvaluationFile, descriptions: Mapping[str, str]) -> tuple[EvaluationFile, list[str]]:
    """(the set without what needs a tool that is not there, those tools)."""
    slices = tuple(each for each in whole.slices if descriptions.keys() >= {*each.tools})
    requests = tuple(each for each in whole.requests if each.tool in descriptions)
    named = {tool for each in whole.slices for tool in each.tools} | {each.tool for each in whole.requests}
    return EvaluationFile(slices=slices, requests=requests), sorted(named - descriptions.keys())


def _choices(requests: Sequence[Request], descriptions: Mapping[str, str], predictions: Path | None) -> list[Choice]:
    if predictions is None:
        return [Choice(each, lexical(each.says, descriptions)) for each in requests]
    try:
        read = TypeAdapter(list[Prediction]).validate_json(predictions.read_bytes(), strict=True)
    except OSError as problem:
        raise CommandError(f"{predictions} cannot be read: {problem.strerror}") from None
    except ValidationError:
        raise CommandError(f'{predictions} is no list of {{"says", "tool"}}') from None
    chosen = {each.says: each.tool for each in read}
    return [Choice(each, chosen.get(each.says, "")) for each in requests]


async def _outcomes(slices: Sequence[Slice], data: Path | None) -> list[Outcome]:
    if data is not None:
        systems = read_systems(os.environ.get(SYSTEMS, "{}"))
        return await _play(slices, find_stack(data), data_folder(data).root, systems.get(OUTBOX))
    stderr = Console(stderr=True, highlight=False)
    with tempfile.TemporaryDirectory(prefix="counterseal-eval-", ignore_cleanup_errors=True) as own:
        folder = data_folder(Path(own) / "data")
        async with outbox() as running:
            played = await with_stack(
                folder,
                lambda info: _play(slices, info, folder.root, running.url),
                report=lambda line: stderr.print(line, markup=False, soft_wrap=True),
                stay=lambda outcomes: False,
                environment=environment(os.environ, running.url),
                keys={OUTBOX: running.key},
            )
    if played is None:
        raise CommandError("interrupted before the end")
    return played


async def _play(slices: Sequence[Slice], info: StackInfo, root: Path, outbox_url: str | None) -> list[Outcome]:
    """One slice after another, so that none waits behind what another lets happen to the gateway. `outbox_url` is
    where the outbox answers, if there is one."""
    async with (
        open_ledger(find_place(root)) as ledger,
        agent_client(info.api) as http,
        httpx.AsyncClient(trust_env=False, follow_redirects=False, timeout=_SECONDS) as outside,
    ):

        async def switch_off(name: str) -> None:
            await ledger.switches.turn_off(_TENANT, name, by="counterseal eval", reason="a slice of the evaluation set")

        people = ApprovalsApi(http, info.approvers[0].token)
        player = Player(AgentApi(http, info.service_token), people, outside, info.sandbox, switch_off, outbox_url)
        return [outcome for each in slices for outcome in await player.play(each)]


def _print(
    whole: EvaluationFile,
    outcomes: Sequence[Outcome],
    found: Scores,
    choices: Sequence[Choice],
    routed: float,
    terminal: Console,
) -> None:
    shown = table("Slice", "Kind", "Holds", "What does not")
    for each in whole.slices:
        problems = _problems(each.name, outcomes)
        shown.add_row(each.name, each.kind, "no" if problems else "yes", Text("; ".join(problems)))
    terminal.print(shown)
    missed = [each for each in choices if each.chosen != each.request.tool]
    if missed:
        listed = table("Tool", "Chosen", "What the customer wrote")
        for each in missed:
            listed.add_row(each.request.tool, each.chosen or "none", Text(each.request.says))
        terminal.print(listed)
    terminal.print(f"{found.slices_held} of {found.slices} slices hold.")
    rates = f"unauthorised {found.unauthorised:.0%}, unsafe chains prevented {found.chains_prevented:.0%}"
    terminal.print(f"Routing accuracy {routed:.0%}, {rates}, recovery {found.recovery:.0%}.")


def _problems(name: str, outcomes: Sequence[Outcome]) -> list[str]:
    own = [each for each in outcomes if each.slice == name and each.problem]
    return [f"step {each.step}: {each.problem}" if each.step else each.problem for each in own]


def _as_json(
    whole: EvaluationFile, outcomes: Sequence[Outcome], found: Scores, choices: Sequence[Choice], routed: float
) -> dict[str, object]:
    return {
        "slices": [
            {"name": each.name, "kind": each.kind, "holds": not _problems(each.name, outcomes)}
            | {"problems": _problems(each.name, outcomes)}
            for each in whole.slices
        ],
        "unauthorised_rate": found.unauthorised,
        "unsafe_chain_prevention": found.chains_prevented,
        "recovery": found.recovery,
        "routing_accuracy": routed,
        "routing": [{"says": each.request.says, "tool": each.request.tool, "chosen": each.chosen} for each in choices],
    }
