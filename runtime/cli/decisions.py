"""`counterseal decisions`: what people decided, as a document that can be checked anywhere."""

import base64
import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated

import typer
from pydantic import JsonValue, ValidationError

from ledger.evidence import BrokenEvidence, Evidence, check, evidence_of
from ledger.ledger import Ledger
from ledger.signing import BadDecision, separate, verifying_keys
from runtime.cli.connecting import DataOption, JsonOption, find_place, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import instant, plain, print_json
from schemas.decisions import HumanDecision
from schemas.ids import is_approval_id

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Decisions, as evidence that holds by itself.")

_MOST_BYTES = 1_000_000
_PROOFS = {"password": "entered their password again", "sign_in": "signed in again at the provider"}


@app.command(epilog="Example: counterseal decisions export apr_0123456789abcdef0123456789abcdef --out decisions.json")
def export(
    approval_id: Annotated[str, typer.Argument(help="The approval, apr_…")],
    out: Annotated[Path, typer.Option(help="The file to write; only you can read it (mode 0600)", dir_okay=False)],
    data: DataOption = None,
) -> None:
    """Write what people decided about an approval, with all that it takes to check it: the exact action, the agent's
    own words among it, the signed decisions, and the service's public key."""
    if not is_approval_id(approval_id):
        raise CommandError(f"{plain(approval_id)} is no approval's id: apr_ and 32 hexadecimal digits")
    keys = verifying_keys(find_place(data).master())
    evidence = with_ledger(data, lambda ledger: _evidence(ledger, approval_id, keys))
    descriptor = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(evidence.model_dump_json(indent=2) + "\n")
    typer.echo(f"{len(evidence.decisions)} decisions")


@app.command(epilog="Example: counterseal decisions verify decisions.json --key service.pem")
def verify(
    file: Annotated[Path, typer.Argument(help="What `decisions export` wrote", dir_okay=False)],
    key: Annotated[
        Path | None,
        typer.Option(help="The service's public key, as you got it from whom you trust", show_default="the file's own"),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check such a file, without any ledger, and print what was decided; exit 1, and one sentence, where the action, a
    decision or a signature was altered. The title in the file is for readers, and nothing covers it."""
    evidence = _read(file)
    try:
        trusted = key.read_bytes() if key is not None else None
        check(evidence, trusted)
    except OSError as error:
        raise CommandError(f"{key} cannot be read: {error.strerror}") from None
    except BrokenEvidence as problem:
        raise CommandError(plain(str(problem))) from None
    told = [_told(each.decision) for each in evidence.decisions]
    pems = separate(evidence.service_key.encode() if trusted is None else trusted)
    fingerprint = ", ".join(_fingerprint(pem) for pem in pems)
    if as_json:
        print_json(
            {
                "holds": True,
                "approval_id": evidence.approval_id,
                "action": evidence.action,
                "decisions": told,
                "service_key": fingerprint,
            }
        )
        return
    typer.echo("It holds, of this action:")
    for name, value in _fields(evidence.action):
        typer.echo(f"  {plain(name)}: {plain(value)}")
    for each in told:
        typer.echo(f"  {plain(each)}")
    whose = "the key that you gave" if key else "the key in the file; compare it with `counterseal decisions key`"
    typer.echo(f"  signed by {whose}: {fingerprint}")


@app.command(epilog="Example: counterseal decisions key > service.pem")
def key(data: DataOption = None) -> None:
    """Print the public keys that this service signs decisions with and signed earlier ones with, for those who check
    them; the present one first."""
    keys = verifying_keys(find_place(data).master())
    found = with_ledger(data, lambda ledger: _kept(ledger, keys))
    typer.echo("".join(pem.decode() for pem in found.values()), nl=False)


async def _kept(ledger: Ledger, keys: dict[str, bytes]) -> dict[str, bytes]:
    """With the public keys of master keys that are gone."""
    return keys | {key_id: pem for key_id, pem in (await ledger.rewrapping.public_keys()).items() if key_id not in keys}


async def _evidence(ledger: Ledger, approval_id: str, keys: dict[str, bytes]) -> Evidence:
    approval = await ledger.approvals.find(approval_id)
    if approval is None:
        raise CommandError(f"there is no approval {approval_id}")
    tokens = [token for token, _ in await ledger.approvals.granted_by(approval_id)]
    if not tokens:
        raise CommandError(f"nobody has decided {approval_id}")
    try:
        made = evidence_of(approval, tokens, await _kept(ledger, keys))
    except BadDecision:
        raise CommandError("a decision in the ledger is not signed with this service's key") from None
    if made is None:
        raise CommandError(f"{approval_id} is from before it was kept what exactly was decided")
    return made


def _read(file: Path) -> Evidence:
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CommandError(f"{file} cannot be read: {error.strerror}") from None
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError
        return Evidence.model_validate_json(content)
    except (ValidationError, ValueError):
        raise CommandError(f"{file} is not a file of decisions, or was altered") from None


def _fields(action: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
    """What the digest covers, and so what was decided. The title is no part of it: whoever alters that is not found."""
    for name, value in action.items():
        if isinstance(value, dict):
            yield from ((f"{name}.{within}", said) for within, said in _fields(value))
        else:
            yield name, value if isinstance(value, str) else json.dumps(value)


def _told(decision: HumanDecision) -> str:
    said = f"{decision.approver} {'approved' if decision.verdict == 'approve' else 'denied'} it"
    proof = decision.proof
    if proof is None:
        how = "the service vouches for who it was"
    elif proof.assertion is not None:
        key = base64.urlsafe_b64decode(proof.assertion.public_key + "==")
        how = f"signed by their passkey SHA256:{hashlib.sha256(key).hexdigest()} at {proof.assertion.origin}"
    else:
        how = f"who {_PROOFS[proof.kind]}, as the service vouches"
    return f"{said} {instant(decision.decided_at)}: {how}"


def _fingerprint(pem: bytes) -> str:
    """SHA-256 of the key itself (DER), however the file around it is laid out."""
    der = base64.b64decode(b"".join(pem.split(b"-----")[2].split()))
    return f"SHA256:{hashlib.sha256(der).hexdigest()}"
