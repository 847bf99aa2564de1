"""`counterseal tokens`: bearer tokens of services, approvers and operators."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, cast

import typer

from ledger.principals import Principals, TokenKind
from runtime.cli.connecting import DataOption, JsonOption, whoami, with_principals
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Bearer tokens of the API.")

_COLUMNS = ("token_id", "kind", "principal", "owner", "tenant", "created_at", "expires_at", "revoked_at")
_DURATION = re.compile(r"([1-9][0-9]{0,4})([mhd])")
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


class Kind(StrEnum):
    """Runs get their tokens when they are opened."""

    SERVICE = "service"
    APPROVER = "approver"
    OPERATOR = "operator"


@app.command(epilog="Example: counterseal tokens issue service support-runtime --expires-in 90d")
def issue(
    kind: Annotated[Kind, typer.Argument(help="What it opens")],
    principal: Annotated[str, typer.Argument(help="Whose it is: a service's name, or a user")],
    expires_in: Annotated[str | None, typer.Option(help="30m, 12h, 90d", show_default="never")] = None,
    owner: Annotated[
        str | None,
        typer.Option(help="Who answers for the service's agents, and decides nothing that they ask for"),
    ] = None,
    tenant: Annotated[str, typer.Option(envvar="COUNTERSEAL_TENANT", help="Whose calls it opens")] = "default",
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token and print it, this once: only its hash is kept."""
    if owner is not None and (kind is not Kind.SERVICE or not owner.strip()):
        raise typer.BadParameter("--owner names who answers for a service's agents")
    expires_at = None if expires_in is None else datetime.now(UTC) + _duration(expires_in)

    async def work(principals: Principals) -> tuple[str, str]:
        holder = principal.lower() if kind is Kind.APPROVER else principal
        if kind is Kind.APPROVER:
            await _check_person(principals, holder, tenant)
        return await principals.issue(
            cast(TokenKind, kind.value), tenant, holder, expires_at=expires_at, owner=owner, by=f"cli:{whoami()}"
        )

    token_id, token = with_principals(data, work)
    if as_json:
        print_json({"token_id": token_id, "token": token, "expires_at": expires_at})
        return
    typer.echo(f"{token_id} for {kind} {principal}, shown this once:", err=True)
    typer.echo(token)


@app.command(name="list", epilog="Example: counterseal tokens list --json")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List the tokens there are, never their values; those of runs belong to their runs."""
    rows = [{name: row[name] for name in _COLUMNS} for row in with_principals(data, lambda them: them.tokens())]
    if as_json:
        print_json({"tokens": rows})
        return
    shown = table("Token", "Kind", "Principal", "Owner", "Tenant", "Issued", "Expires", "Revoked")
    for row in rows:
        times = map(instant, (row["created_at"], row["expires_at"], row["revoked_at"]))
        shown.add_row(row["token_id"], row["kind"], row["principal"], row["owner"] or "", row["tenant"], *times)
    console().print(shown)


@app.command(epilog="Example: counterseal tokens revoke tok_0123456789abcdef")
def revoke(token_id: Annotated[str, typer.Argument(help="The id, as listed")], data: DataOption = None) -> None:
    """Revoke a token; the very next request with it is refused. Runs that it opened end with it."""
    if not with_principals(data, lambda principals: principals.revoke(token_id, by=f"cli:{whoami()}")):
        raise CommandError(f"there is no unrevoked token {token_id}")
    typer.echo(f"revoked {token_id}")


def _duration(text: str) -> timedelta:
    match = _DURATION.fullmatch(text)
    if match is None:
        raise typer.BadParameter("a duration is a number and m, h or d: 30m, 12h, 90d")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})


async def _check_person(principals: Principals, username: str, tenant: str) -> None:
    """An approver's token is worth what its person is: without one it could decide nothing."""
    people = {row["username"]: row for row in await principals.users()}
    person = people.get(username)
    if person is None or person["disabled_at"] is not None or person["tenant"] != tenant:
        raise CommandError(f"there is no enabled user {username} of the tenant {tenant}: add them first")
