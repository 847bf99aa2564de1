"""`counterseal worker`: the worker process."""

from typing import Annotated

import typer

from runtime.cli.errors import CommandError
from runtime.settings import SettingsError, load

app = typer.Typer()


@app.command(epilog="Example: counterseal worker --queue workflows --queue payments")
def worker(
    queue: Annotated[
        list[str] | None, typer.Option(help="workflows, payments, orders, messages or sealer; all of them by default")
    ] = None,
) -> None:
    """Work off the task queues. Settings come from the environment."""
    from runtime.worker_process import QUEUES, Served, run_worker

    known: dict[str, Served] = {name: name for name in QUEUES}
    if unknown := sorted(set(queue or ()) - set(known)):
        raise typer.BadParameter(f"unknown: {', '.join(unknown)}; known are {', '.join(known)}")
    try:
        run_worker(load(), [known[name] for name in queue] if queue else QUEUES)
    except SettingsError as problem:
        raise CommandError(str(problem)) from None
