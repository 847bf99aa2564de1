"""`counterseal worker`: the worker process."""

from typing import Annotated

import typer

from runtime.cli.errors import CommandError
from runtime.settings import SettingsError, load
from schemas.tools import WorkerQueue

app = typer.Typer()


@app.command(epilog="Example: counterseal worker --queue workflows --queue payments")
def worker(
    queue: Annotated[
        list[str] | None, typer.Option(help="workflows, payments, orders or messages; all of them by default")
    ] = None,
) -> None:
    """Work off the task queues. Settings come from the environment."""
    from runtime.worker_process import QUEUES, run_worker

    known: dict[str, WorkerQueue] = {name: name for name in QUEUES}
    if unknown := sorted(set(queue or ()) - set(known)):
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        run_worker(load(), [known[name] for name in queue] if queue else QUEUES)
    except SettingsError as problem:
        raise CommandError(str(problem)) from None
