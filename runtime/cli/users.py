"""`counterseal users`: who may sign in on the web form, who is the same person, and how far their roles go."""

import json
import re
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated

import typer

from ledger.delegations import LONGEST, MOST_REASON, is_span, whole_days
from ledger.people import ANY, Grant
from ledger.principals import Principals
from runtime.cli.connecting import DataOption, JsonOption, whoami, with_principals
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, plain, print_json, table
from schemas.money import Money

app = typer.Typer(no_args_is_help=True, add_completion=False, help="People who decide or operate.")

_SHORTEST_PASSWORD = 10
_COLUMNS = (
    "username", "display_name", "tenant", "roles", "person_id", "names", "identities", "has_password", "created_at",
    "disabled_at",
)  # fmt: skip


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
    added = with_principals(
        data, lambda people: people.add_user(tenant, username, name or username, password, roles, by=f"cli:{whoami()}")
    )
    if not added:
        raise CommandError(f"there already is a user {username.lower()}; nothing was changed")
    typer.echo(f"added {username.lower()} ({', '.join(roles)})")


@app.command(name="list", epilog="Example: counterseal users list --json")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List everyone, those who are disabled too."""
    found = with_principals(data, lambda people: people.users())
    rows = [{**{name: row[name] for name in _COLUMNS}, "grants": json.loads(row["grants"])} for row in found]
    if as_json:
        print_json({"users": rows})
        return
    shown = table("Username", "Name", "Tenant", "Roles", "Also known as", "Added", "Disabled")
    for row in rows:
        others = sorted(set(row["names"]) - {row["username"]})
        shown.add_row(
            row["username"],
            row["display_name"],
            row["tenant"],
            ", ".join(row["roles"]),
            ", ".join(others),
            *map(instant, (row["created_at"], row["disabled_at"])),
        )
    console().print(shown)


@app.command(epilog="Example: counterseal users disable ana")
def disable(username: Annotated[str, typer.Argument(help="Who")], data: DataOption = None) -> None:
    """Shut a person out at once, with all their accounts: no sign-in, no session, no token is good any more."""
    disabled = with_principals(data, lambda people: people.disable_user(username, by=f"cli:{whoami()}"))
    if not disabled:
        raise _unknown(username, enabled=True)
    typer.echo(f"disabled {', '.join(disabled)}")


@app.command(epilog="Example: counterseal users link ana --issuer https://login.example.com --subject 4f1d20aa")
def link(
    username: Annotated[str, typer.Argument(help="The account")],
    issuer: Annotated[str | None, typer.Option(help="The OpenID provider's issuer, exactly")] = None,
    subject: Annotated[str | None, typer.Option(help="What that calls the person: the claim `sub`")] = None,
    account: Annotated[str | None, typer.Option(help="Another account of the same person")] = None,
    data: DataOption = None,
) -> None:
    """Say who an account belongs to: to a subject of the OpenID provider, who then signs in as it, or to the person of
    another account. Two accounts of one person count as one, and neither decides what the other asked for."""
    if account is not None and issuer is None and subject is None:
        joined = with_principals(data, lambda people: people.identities.join(username, account))
        if joined == "other_tenant":
            raise CommandError("accounts of two tenants cannot be one person's; nothing was changed")
        if joined == "no_user":
            raise CommandError(f"there are no users {username.lower()} and {account.lower()}; nothing was changed")
        typer.echo(f"{username.lower()} and {account.lower()} are one person")
        return
    if account is not None or not issuer or not subject:
        raise typer.BadParameter("give --issuer and --subject, or --account")
    linked = with_principals(data, lambda people: people.identities.link(username, issuer, subject))
    if linked == "taken":
        raise CommandError("that subject has an account already; nothing was changed")
    if linked == "no_user":
        raise _unknown(username)
    typer.echo(f"{subject} of {issuer} signs in as {username.lower()}")


@app.command(epilog="Example: counterseal users alias ana a.example@example.com")
def alias(
    username: Annotated[str, typer.Argument(help="Who")],
    names: Annotated[list[str], typer.Argument(help="What else they are called: a name, an e-mail address")],
    data: DataOption = None,
) -> None:
    """Say what else a person is called. Nobody decides what was asked for under a name of theirs."""
    if not with_principals(data, lambda people: people.identities.add_names(username, names)):
        raise _unknown(username)
    typer.echo(f"{username.lower()} is known as {', '.join(names)}, too")


@app.command(
    epilog="Example: counterseal users grant ana --role finance --tool issue_refund --up-to 50000 --currency USD"
)
def grant(
    username: Annotated[str, typer.Argument(help="Whose role it is")],
    role: Annotated[str, typer.Option(help="The role that it bounds")],
    tool: Annotated[str, typer.Option(help="A tool; * is every tool")] = ANY,
    up_to: Annotated[
        int | None, typer.Option(min=0, help="The most they may approve, in minor units", show_default="any amount")
    ] = None,
    currency: Annotated[str | None, typer.Option(help="Of --up-to: USD, EUR, …")] = None,
    data: DataOption = None,
) -> None:
    """Bound a role. One without a grant goes all the way; with its first it goes as far as its grants do, and no
    further. A bound in one currency approves nothing in another."""
    if (up_to is None) != (currency is None):
        raise typer.BadParameter("--up-to and --currency go together")
    if currency is not None and re.fullmatch(r"[A-Z]{3}", currency) is None:
        raise typer.BadParameter("a currency is three capital letters: USD, EUR")
    wanted = Grant(role=role, tool=tool, currency=currency or ANY, up_to=up_to)
    if not with_principals(data, lambda people: people.identities.grant(username, wanted)):
        raise _unknown(username)
    reach = "any amount" if up_to is None or currency is None else f"up to {Money(amount=up_to, currency=currency)}"
    typer.echo(f"{username.lower()} as {role}: {'every tool' if tool == ANY else tool}, {reach}")


@app.command(epilog="Example: counterseal users ungrant ana --role finance")
def ungrant(
    username: Annotated[str, typer.Argument(help="Whose role it is")],
    role: Annotated[str, typer.Option(help="The role")],
    tool: Annotated[str | None, typer.Option(help="Only the grants for this tool", show_default="all of them")] = None,
    unbounded: Annotated[bool, typer.Option("--unbounded", help="Take the last one too")] = False,
    data: DataOption = None,
) -> None:
    """Take grants of a role away. Without any left the role goes all the way again, which has to be said."""
    taken = with_principals(
        data, lambda people: people.identities.revoke_grants(username, role, tool, unbounded=unbounded)
    )
    if taken == "last":
        raise CommandError(
            f"without these grants {role} would have no bound for {username.lower()}: say --unbounded if that is meant"
        )
    if taken == "none":
        raise CommandError(f"{username.lower()} has no such grant; nothing was changed")
    typer.echo(f"took the grants of {role} from {username.lower()}")


@app.command(epilog="Example: counterseal users delegate ada mei --last 2030-12-24 --reason 'on leave'")
def delegate(
    username: Annotated[str, typer.Argument(help="Who is away")],
    other: Annotated[str, typer.Argument(help="Who decides in their place")],
    last: Annotated[datetime, typer.Option(formats=["%Y-%m-%d"], help="The last day, by UTC")],
    reason: Annotated[str, typer.Option(help="Why")],
    first: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The first day, by UTC", show_default="today")
    ] = None,
    data: DataOption = None,
) -> None:
    """Let somebody decide in another's place for a time, 90 days at most: what those may decide, as far as they may."""
    begin = (first or datetime.now(UTC)).date()
    span = whole_days(begin, last.date())
    if not is_span(*span, datetime.now(UTC)):
        raise typer.BadParameter(f"the last day is not before the first, not over, and within {LONGEST.days} days")
    if not reason.strip() or len(reason) > MOST_REASON:
        raise typer.BadParameter(f"a reason has 1 to {MOST_REASON} characters")

    async def lend(people: Principals) -> bool:
        tenant = await people.delegations.tenant_of(username)
        return tenant is not None and await people.delegations.lend(
            tenant, username.lower(), other, *span, reason=reason.strip(), by=f"cli:{whoami()}"
        )

    if not with_principals(data, lend):
        raise CommandError(
            f"there are no two different people {username.lower()} and {other.lower()} of one tenant who may sign in"
        )
    typer.echo(f"{other.lower()} decides for {username.lower()} from {instant(span[0])} until {instant(span[1])}")


@app.command(epilog="Example: counterseal users undelegate ada mei")
def undelegate(
    username: Annotated[str, typer.Argument(help="Who was away")],
    other: Annotated[str, typer.Argument(help="Who decided in their place")],
    data: DataOption = None,
) -> None:
    """End at once that somebody decides in another's place, now and later."""

    async def end(people: Principals) -> int:
        found = await people.delegations.of(None, username.lower())
        theirs = [each for each in found if (each.delegator, each.delegate) == (username.lower(), other.lower())]
        return sum(
            [await people.delegations.revoke(each.tenant, each.delegation_id, by=f"cli:{whoami()}") for each in theirs]
        )

    if not with_principals(data, end):
        raise CommandError(f"{other.lower()} does not decide for {username.lower()}; nothing was changed")
    typer.echo(f"{other.lower()} no longer decides for {username.lower()}")


@app.command(epilog="Example: counterseal users away --json")
def away(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List who is away, or will be, and who decides in their place."""
    found = with_principals(data, lambda people: people.delegations.of())
    if as_json:
        print_json({"delegations": [asdict(each) for each in found]})
        return
    shown = table("Away", "Decides", "Tenant", "From", "Until", "Reason", "By")
    for each in found:
        span = map(instant, (each.starts_at, each.ends_at))
        shown.add_row(each.delegator, each.delegate, each.tenant, *span, plain(each.reason), each.created_by)
    console().print(shown)


def _unknown(username: str, *, enabled: bool = False) -> CommandError:
    return CommandError(f"there is no {'enabled ' if enabled else ''}user {username.lower()}")


def _password() -> str:
    """Never an argument: those are seen by everyone on the machine. Raises CommandError for one that is too short."""
    if sys.stdin.isatty():
        password = typer.prompt("Password", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if len(password) < _SHORTEST_PASSWORD:
        raise CommandError(f"a password has at least {_SHORTEST_PASSWORD} characters; nothing was changed")
    return password
