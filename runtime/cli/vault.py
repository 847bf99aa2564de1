"""`counterseal vault`: the credentials of remote systems. Lock it with `counterseal switches off vault`."""

import os
import re
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateways.registry import HELPDESKS, ORDER_SYSTEMS, PAYMENT_GATEWAYS
from ledger.keys import KeyMaterialError
from ledger.vault import ANY_TOOL
from notices.file import CHANNEL
from runtime.cli.connecting import DataOption, JsonOption, whoami, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, print_json, table
from runtime.master import sealed_by
from runtime.systems import read_systems
from runtime.upstreams import read_upstreams
from schemas.switches import EVERYONE

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Credentials of remote systems.")

_SYSTEMS = sorted({*PAYMENT_GATEWAYS, *ORDER_SYSTEMS, *HELPDESKS})
_NAMED = ", ".join(_SYSTEMS)
_OWN, _UPSTREAMS = "COUNTERSEAL_SYSTEMS", "COUNTERSEAL_UPSTREAMS"
_CHANNEL = re.compile(f"{CHANNEL}[a-z][a-z0-9-]{{1,62}}")
_LONGEST = 4096


@app.command(name="list", epilog="Example: counterseal vault list")
def list_(data: DataOption = None, as_json: JsonOption = False) -> None:
    """List what is in the vault; never a secret."""
    stored = with_ledger(data, lambda ledger: ledger.vault.stored())
    if as_json:
        names = ("credential_id", "system", "tenant", "tool", "created_at", "created_by", "retired_at")
        print_json({"credentials": [{name: getattr(each, name) for name in names} for each in stored]})
        return
    shown = table("Record", "System", "Tenant", "Tool", "Put", "By", "Retired")
    for each in stored:
        retired = instant(each.retired_at) if each.retired_at else ""
        tenant, tool = (each.tenant, each.tool)
        shown.add_row(each.credential_id, each.system, tenant, tool, instant(each.created_at), each.created_by, retired)
    console().print(shown)


@app.command(epilog="Example: counterseal vault put stripe")
def put(
    system: Annotated[
        str,
        typer.Argument(help=f"One of {_NAMED}, of {_OWN}, of {_UPSTREAMS}, or channel:NAME of the notices file"),
    ],
    tenant: Annotated[str, typer.Option(help="Only for this tenant's calls")] = EVERYONE,
    tool: Annotated[str, typer.Option(help="Only for this tool's calls")] = ANY_TOOL,
    data: DataOption = None,
) -> None:
    """Put a credential into the vault, read from standard input. It takes the place of the one before within a second,
    in every process; retire that one when it is withdrawn at the remote system."""
    known = [*_SYSTEMS, *_own_systems()]
    if system not in known and _CHANNEL.fullmatch(system) is None:
        raise typer.BadParameter(
            f"one of {', '.join(known)}, or channel:NAME; {_OWN} can name more, and {_UPSTREAMS}", param_hint="SYSTEM"
        )
    secret = (typer.prompt("Secret", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(_LONGEST + 1)).strip()
    if not secret or len(secret) > _LONGEST or not secret.isascii() or not secret.isprintable():
        raise CommandError(f"the secret must be 1 to {_LONGEST} printable ASCII characters")
    made = with_ledger(data, lambda ledger: ledger.vault.put(system, secret, by=whoami(), tenant=tenant, tool=tool))
    console().print(made)


def _own_systems() -> list[str]:
    """Raises CommandError."""
    try:
        own = sorted(read_systems(os.environ.get(_OWN, "{}")))
    except ValueError as problem:
        raise CommandError(f"{_OWN}: {problem}") from None
    try:
        file = os.environ.get(_UPSTREAMS)
        return own if not file else own + sorted(read_upstreams(Path(file)).upstreams)
    except ValueError as problem:
        raise CommandError(f"{_UPSTREAMS}: {problem}") from None


@app.command(name="seal-key", epilog="Example: counterseal vault seal-key aws:alias/counterseal")
def seal_key(
    kms: Annotated[str, typer.Argument(help="aws:KEY, the id, ARN or alias of a key of AWS KMS")],
) -> None:
    """Seal a master key, read from standard input, to what COUNTERSEAL_MASTER_KEY_FILE holds where
    COUNTERSEAL_MASTER_KEY_KMS names that key."""
    given = typer.prompt("Master key", hide_input=True) if sys.stdin.isatty() else sys.stdin.read(_LONGEST)
    try:
        sealed = sealed_by(kms, given.strip())
    except KeyMaterialError as problem:
        raise CommandError(str(problem)) from None
    sys.stdout.write(sealed + "\n")


@app.command(epilog="Example: counterseal vault retire cred_0123456789abcdef01234567")
def retire(
    credential_id: Annotated[str, typer.Argument(help="The record's id, cred_…")], data: DataOption = None
) -> None:
    """Take a credential out of use; exit 1 when it was not in use."""
    if not with_ledger(data, lambda ledger: ledger.vault.retire(credential_id)):
        raise CommandError("there is no such credential in use")
    console().print(f"{credential_id} is retired.")
