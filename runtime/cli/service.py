"""Which service a command of an agent's side speaks to, and with what: never the database, only its API."""

from pathlib import Path
from typing import Annotated

import typer

from runtime.stack.connection import find_stack

StackOption = Annotated[
    Path | None,
    typer.Option("--data", help="Data folder of a running stack", show_default="COUNTERSEAL_DATA, else .counterseal"),
]
ApiOption = Annotated[str | None, typer.Option("--api", help="Another service's URL, with --service-token")]
ServiceTokenOption = Annotated[
    str | None, typer.Option("--service-token", envvar="COUNTERSEAL_SERVICE_TOKEN", help="What opens runs there")
]


def find_service(data: Path | None, api: str | None, token: str | None) -> tuple[str, str]:
    """(URL, service token) of what was asked for. Raises BadParameter, and StackError where no stack is running."""
    if api is None:
        info = find_stack(data)
        return info.api, info.service_token
    if token is None or data is not None:
        raise typer.BadParameter("--api goes with --service-token, and without --data")
    return checked_url(api), token


def checked_url(api: str) -> str:
    """Raises BadParameter."""
    if not api.startswith(("http://", "https://")):
        raise typer.BadParameter("--api is a URL that begins with http:// or https://")
    return api.rstrip("/")
