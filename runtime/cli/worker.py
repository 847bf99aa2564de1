"""`counterseal worker`: the worker process."""

from typing import Annotated

import typer

from runtime.cli.errors import CommandError
from runtime.settings import SettingsError, load

app = typer.Typer()


@app.command(epilog="Example: counterseal worker --queue workflows --queue payments")
def worker(
    queue: Annotated[
        list[str] | None, typer.Option(help="workflows, payments, orders or messages; all of them by default")
    ] = None,
) -> None:
    """Work off the task queues. Settings come from the environment."""
    from runtime.worker_process import QUEUES, run_worker

    unknown = set(queue or ()) - set(QUEUES)
    if unknown:
        raise typer.BadParameter(f"unknown: {', '.join(sorted(unknown))}; known are {', '.join(QUEUES)}")
    asked = tuple(filter(frozenset(queue or QUEUES).__contains__, QUEUES))
    try:
        run_worker(load(), asked)
    except SettingsError as problem:
        raise CommandError(str(problem)) from None
