"""`counterseal users`: who may sign in on the web form."""

import sys
from typing import Annotated

import typer

from runtime.cli.connecting import DataOption, JsonOption, with_principals
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="People who decide or operate.")

_SHORTEST_PASSWORD = 10
_COLUMNS = ("username", "display_name", "tenant", "roles", "created_at", "disabled_at")


@app.command(epilog="Example: counterseal users add ana --name 'Ana Example' --role finance")
def add(
    username: Annotated[str, typer.Argument(help="What the person signs in with")],
    name: Annotated[str | None, typer.Option(help="Name shown to others", show_default="the username")] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(help="A group of the policy's approvers, or operator; one each", show_default="finance"),
    ] = None,
    tenant: Annotated[str, typer.Option(envvar="COUNTERSEAL_TENANT", help="Whose calls they see")] = "default",
    data: DataOption = None,
) -> None:
    """Add a person; the password is asked for, or read from the first line of standard input."""
    if not username.isascii() or not username.isprintable() or not username.strip() or len(username) > 64:
        raise typer.BadParameter("a username has 1 to 64 printable ASCII characters")
    password = _password()
    roles = role or ["finance"]
    added = with_principals(data, lambda people: people.add_user(tenant, username, name or username, password, roles))
    if not added:
        raise CommandError(f"there already is a user {username.lower()}; nothing was changed")
    typer.echo(f"added {username.lower()} ({', '.join(roles)})")


@app.command(name="list", epilog="Example: counterseal users list --json")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List everyone, those who are disabled too."""
    rows = [{name: row[name] for name in _COLUMNS} for row in with_principals(data, lambda people: people.users())]
    if as_json:
        print_json({"users": rows})
        return
    shown = table("Username", "Name", "Tenant", "Roles", "Added", "Disabled")
    for row in rows:
        roles = ", ".join(row["roles"])
        shown.add_row(
            row["username"],
            row["display_name"],
            row["tenant"],
            roles,
            *map(instant, (row["created_at"], row["disabled_at"])),
        )
    console().print(shown)


@app.command(epilog="Example: counterseal users disable ana")
def disable(username: Annotated[str, typer.Argument(help="Who")], data: DataOption = None) -> None:
    """Shut a person out at once: no sign-in, no session, no token of theirs is good any more."""
    if not with_principals(data, lambda people: people.disable_user(username)):
        raise CommandError(f"there is no enabled user {username.lower()}")
    typer.echo(f"disabled {username.lower()}")


def _password() -> str:
    """Never an argument: those are seen by everyone on the machine. Raises CommandError for one that is too short."""
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if len(password) < _SHORTEST_PASSWORD:
        raise CommandError(f"a password has at least {_SHORTEST_PASSWORD} characters; nothing was changed")
    return password
