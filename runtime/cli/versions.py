"""`counterseal versions`: which build new calls begin on, which builds still have open calls, and taking those over."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict
from rich.text import Text
from temporalio.service import RPCError

from ledger.keys import MasterKey
from runtime.cli.connecting import DataOption, JsonOption
from runtime.cli.errors import CommandError
from runtime.cli.output import console, print_json, table
from runtime.cli.replay import master_of, replayed_line
from runtime.cli.temporal import open_temporal
from runtime.replaying import Replayed
from runtime.settings import BuildId
from runtime.versions import Build, NotReadyError, Versions, stoppable

T = TypeVar("T")

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="Builds that run side by side, and which one new calls begin on."
)

_Build = Annotated[str, typer.Argument(metavar="BUILD", help="A build id, as COUNTERSEAL_BUILD_ID says it")]


class _Settings(BaseSettings):
    """What says which installation this is, and which build."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSEAL_", extra="ignore", frozen=True)

    task_queue: Annotated[str, Field(min_length=1)] = "counterseal"
    build_id: BuildId = ""


@app.command(name="list", epilog="Example: counterseal versions list --json")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the builds that Temporal knows, and how many workflows are open on each."""
    builds = _with_versions(data, lambda versions: versions.builds())
    unneeded = stoppable(builds)
    if as_json:
        print_json({"builds": [asdict(each) for each in builds], "stoppable": unneeded})
        return
    if not builds:
        console().print("Workers are not versioned: COUNTERSEAL_BUILD_ID is not set.")
        return
    shown = table("Build", "New calls", "Open workflows", "Workers")
    for each in builds:
        shown.add_row(each.build_id, "begin here" if each.current else "", str(each.open), _workers(each, unneeded))
    console().print(shown)
    if not any(each.current for each in builds):
        console().print("New calls begin on no build, and wait until one is promoted.")


@app.command(epilog="Example: counterseal versions promote 0.2.0 --wait 60")
def promote(
    build: _Build,
    wait: Annotated[int, typer.Option(min=0, help="How many seconds to wait for its workers")] = 60,
    data: DataOption = None,
) -> None:
    """Let new calls begin on a build, a newer one or, to roll back, an older one. Open calls end where they began."""
    _with_versions(data, lambda versions: versions.promote(build, wait))
    console().print(Text(f"New calls begin on build {build}."))


@app.command(epilog="Example: COUNTERSEAL_BUILD_ID=0.2.0 counterseal versions adopt 0.1.0")
def adopt(
    build: _Build,
    limit: Annotated[int, typer.Option(min=1, help="How many workflows at most")] = 1000,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take over a build's open calls into the build whose code this is (COUNTERSEAL_BUILD_ID), each once its history
    replays with it; exit 1 when one does not: it stays where it is."""
    into = _settings().build_id
    if not into or into == build:
        raise CommandError("COUNTERSEAL_BUILD_ID has to say which build this is, and it is another one")

    async def take_over(versions: Versions) -> list[Replayed]:
        return [each async for each in versions.take_over(build, into, limit)]

    moved = _with_versions(data, take_over, master_of(data, running=True))
    left = sum(each.problem is not None for each in moved)
    if as_json:
        print_json({"workflows": [{"workflow_id": each.workflow_id, "problem": each.problem} for each in moved]})
    else:
        for each in moved:
            console().print(replayed_line(each))
        console().print(Text(f"{len(moved) - left} moved from {build} to {into}, {left} left."))
    if left:
        raise typer.Exit(1)


def _workers(build: Build, unneeded: Sequence[str]) -> str:
    if build.build_id in unneeded:
        return "can be stopped"
    return "are needed" if build.promoted or build.open else "wait until it is promoted"


def _settings() -> _Settings:
    try:
        return _Settings()
    except ValidationError:
        raise CommandError(
            "COUNTERSEAL_BUILD_ID or COUNTERSEAL_TASK_QUEUE is not what a build or queue can be called"
        ) from None


def _with_versions(data: Path | None, do: Callable[[Versions], Awaitable[T]], master: MasterKey | None = None) -> T:
    """Raises CommandError."""

    async def run() -> T:
        client = await open_temporal(master, data)
        try:
            return await do(Versions(client, _settings().task_queue))
        except NotReadyError as problem:
            raise CommandError(str(problem)) from None
        except RPCError as problem:
            raise CommandError(f"Temporal did not do it ({problem.status.name.lower()})") from None

    return asyncio.run(run())
