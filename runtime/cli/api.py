"""`counterseal api`: the API process."""

import typer

from runtime.cli.errors import CommandError
from runtime.settings import SettingsError, load

app = typer.Typer()


@app.command(epilog="Example: COUNTERSEAL_DATABASE_URL=postgresql://… COUNTERSEAL_MASTER_KEY_FILE=… counterseal api")
def api() -> None:
    """Serve the HTTP API and the web form. Settings come from the environment."""
    from runtime.api_process import run_api

    try:
        run_api(load())
    except SettingsError as problem:
        raise CommandError(str(problem)) from None
