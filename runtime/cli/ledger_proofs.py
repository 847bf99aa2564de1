"""`counterseal ledger checkpoint`, `prove` and `rotate-key`."""

from pathlib import Path
from typing import Annotated

import typer

from ledger.ledger import Ledger
from ledger.proving import ConsistencyProof, InclusionProof, NotSealed, Proofs
from ledger.seals import Seal, SealBroken
from runtime.cli.connecting import DataOption, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.ledger_verify import read_checkpoint

_OutOption = Annotated[Path | None, typer.Option(help="Write it there; otherwise to standard output", dir_okay=False)]


def checkpoint(out: _OutOption = None, data: DataOption = None) -> None:
    """Print the newest checkpoint: signed, about everything until now, to be kept where nobody here can reach it."""
    last = with_ledger(data, _last)
    if last is None:
        raise CommandError("nothing is sealed yet")
    _give(last.checkpoint, out)


def prove(
    request_id: Annotated[str | None, typer.Argument(help="The call's request_id, act_…")] = None,
    n: Annotated[int | None, typer.Argument(min=1, help="Which of its events")] = None,
    since: Annotated[Path | None, typer.Option(help="Prove that the ledger goes on from this checkpoint")] = None,
    out: _OutOption = None,
    data: DataOption = None,
) -> None:
    """Prove that an event was sealed, or (--since) that nothing was changed since a checkpoint.

    The proof is verified without the ledger: `counterseal ledger verify --proof FILE --key KEY`.
    """
    if (since is None) == (request_id is None or n is None):
        raise typer.BadParameter("either REQUEST_ID and N, or --since")

    async def work(ledger: Ledger) -> InclusionProof | ConsistencyProof:
        proofs = Proofs(ledger.system)
        if since is None:
            return await proofs.included(str(request_id), int(n or 0))
        last = await ledger.seals.last()
        if last is None:
            raise NotSealed
        return await proofs.consistent(read_checkpoint(since).number, last.number)

    try:
        proof = with_ledger(data, work)
    except NotSealed:
        raise CommandError("there is no such event or seal, or it is not sealed yet") from None
    except SealBroken as problem:
        raise CommandError(str(problem)) from None
    _give(proof.model_dump_json(indent=2) + "\n", out)


def rotate_key(data: DataOption = None) -> None:
    """Sign seals with a new key from now on. The old key's last seal names it, so that all verifies across it."""
    try:
        sealed = with_ledger(data, lambda ledger: ledger.seals.rotate())
    except SealBroken as problem:
        raise CommandError(str(problem)) from None
    typer.echo(f"Seal {sealed.number} is the last of the old key and names the new one: {sealed.says.next_key}")


async def _last(ledger: Ledger) -> Seal | None:
    return await ledger.seals.last()


def _give(text: str, out: Path | None) -> None:
    if out is None:
        typer.echo(text, nl=False)
        return
    try:
        out.write_text(text)
    except OSError as problem:
        raise CommandError(f"{out} cannot be written: {problem.strerror}") from None
