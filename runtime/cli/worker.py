"""`counterseal worker`: the worker process."""

from typing import Annotated

import typer

from runtime.cli.errors import CommandError
from runtime.settings import SettingsError, load
from schemas.tools import WorkerQueue

app = typer.Typer()


@app.command(epilog="Example: counterseal worker --queue workflows --queue payments")
def worker(
    queue: Annotated[list[WorkerQueue] | None, typer.Option(help="Which to serve; all of them by default")] = None,
) -> None:
    """Work off the task queues. Settings come from the environment."""
    from runtime.worker_process import QUEUES, run_worker

    try:
        run_worker(load(), queue or QUEUES)
    except SettingsError as problem:
        raise CommandError(str(problem)) from None
