"""`counterseal ledger verify`."""

import asyncio
import tempfile
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError

from ledger.checkpoints import BadCheckpoint, Checkpoint, VerifierKey
from ledger.diagnosing import diagnose
from ledger.exporting import Export, OtherLedger
from ledger.findings import EXIT, MEANING, Finding, gravest
from ledger.histories import Remembered, compare
from ledger.proving import ConsistencyProof, InclusionProof
from ledger.verifying import Held, Suspicious, read_keys
from ledger.verifying import verify as quickly
from runtime.checkpoints import CheckpointFileBroken, newest
from runtime.cli.connecting import DataOption, JsonOption, Place, find_place, open_database
from runtime.cli.errors import CommandError
from runtime.cli.ledger_export import Done, progress
from runtime.cli.output import print_json

_LIVE = 1_000_000
"""How many histories are compared at most."""


def verify(
    export: Annotated[Path | None, typer.Option(help="An export; otherwise the ledger itself", file_okay=False)] = None,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A checkpoint that was kept elsewhere, or a file of them: the newest counts")
    ] = None,
    proof: Annotated[Path | None, typer.Option(help="Verify this proof alone, with the keys of --key")] = None,
    key: Annotated[
        list[str] | None, typer.Option(help="A verifier key to trust; otherwise those in the export")
    ] = None,
    history: Annotated[
        list[Path] | None, typer.Option(help="Compare with a history as exported; may be given several times")
    ] = None,
    temporal: Annotated[bool, typer.Option("--temporal", help="Compare with the histories that Temporal has")] = False,
    processes: Annotated[int | None, typer.Option(min=1, help="How many at once; otherwise one a core")] = None,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Whether the ledger is as it was sealed: nothing changed, removed or invented. Needs no key that opens anything,
    save for comparing it with Temporal's histories, which are encrypted.

    Without a checkpoint from elsewhere an older copy of everything, or one sealed anew with another key, cannot be told
    from the ledger. Exit 0 when it holds; otherwise 10 altered, 11 missing, 12 truncated, 13 emptied,
    14 rewritten, 15 reordered, 16 swapped, 17 forked, 18 rolled back, 19 invented, 20 unverifiable, 21 incomplete.
    """
    keys = [_key(text) for text in key or ()]
    if proof is not None:
        _proof(proof, keys)
        return
    trusted = None if checkpoint is None else read_checkpoint(checkpoint)
    with ExitStack() as stack:
        folder = export
        if folder is None:
            folder = stack.enter_context(_exported(find_place(data)))
        elif not folder.is_dir():
            raise CommandError(f"{folder} is no folder with an export")
        held, findings = _verified(folder, trusted, keys, processes)
        if held is not None and (history or temporal):
            findings = compare(folder, asyncio.run(_remembered(history or [], temporal, data)))
            held = None if findings else held
    if as_json:
        print_json(_as_json(held, findings, trusted))
    else:
        _print(held, findings, trusted)
    if findings:
        raise typer.Exit(EXIT[gravest(findings).kind])


def hold_to(place: Place, checkpoint: str | None) -> None:
    """Verify the ledger there, and that it goes on from a checkpoint; say what was found. Raises typer.Exit with the
    status of what does not hold."""
    trusted = None if checkpoint is None else Checkpoint.parse(checkpoint)
    with _exported(place) as folder:
        held, findings = _verified(folder, trusted, [], None)
    _print(held, findings, trusted)
    if findings:
        raise typer.Exit(EXIT[gravest(findings).kind])


@contextmanager
def _exported(place: Place) -> Generator[Path]:
    with tempfile.TemporaryDirectory(prefix="counterseal-") as parent:
        folder = Path(parent) / "export"
        with progress("Reading") as done:
            asyncio.run(_read(place, folder, done))
        yield folder


async def _remembered(files: list[Path], temporal: bool, data: Path | None) -> list[Remembered]:
    """What histories say. To read them takes the key that they are encrypted with."""
    # Here, so that whoever only verifies is spared Temporal's client.
    from runtime.cli.replay import CALLS, each, live_histories, master_of, read_histories
    from runtime.codec import data_converter
    from runtime.remembering import remembered

    master = find_place(data).master() if temporal else master_of(data)
    converter = data_converter(master)
    found = await remembered(each(read_histories(files)), converter)
    return found + (await remembered(live_histories(master, CALLS, _LIVE, data), converter) if temporal else [])


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in a file, or the newest one of a file of them. Raises CommandError."""
    try:
        content = path.read_bytes()
        if content.startswith(b"{"):
            found = newest([line for line in content.splitlines(keepends=True) if line.endswith(b"\n")], path)
            if found is None:
                raise CommandError(f"{path} holds no checkpoint")
            return found
        return Checkpoint.parse(content.decode())
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror}") from None
    except (ValueError, BadCheckpoint, CheckpointFileBroken):
        raise CommandError(f"{path} holds no checkpoint") from None


def _key(text: str) -> VerifierKey:
    try:
        return VerifierKey.parse(text)
    except BadCheckpoint as problem:
        raise CommandError(str(problem)) from None


async def _read(place: Place, folder: Path, done: Done) -> None:
    async with open_database(place) as database:
        try:
            await Export(database.system, folder, done).write()
        except OtherLedger as problem:
            raise CommandError(str(problem)) from None


def _verified(
    folder: Path, trusted: Checkpoint | None, keys: list[VerifierKey], processes: int | None
) -> tuple[Held | None, list[Finding]]:
    try:
        _, brought = read_keys(folder)
        if keys and brought[:1] != keys[:1]:
            return None, [Finding("forked", "the first key of the export is not the one that is trusted")]
        with progress("Verifying") as done:
            return quickly(folder, trusted, processes=processes, done=done), []
    except Suspicious as problem:
        suspicion = str(problem)
    return None, diagnose(folder, trusted) or [Finding("altered", f"{suspicion} is not as it is written")]


def _print(held: Held | None, findings: list[Finding], trusted: Checkpoint | None) -> None:
    for finding in findings:
        typer.echo(f"{finding.kind}: {finding.what}")
    if held is None:
        worst = gravest(findings).kind
        typer.echo(f"The ledger does not hold: {MEANING[worst]}." if worst != "incomplete" else f"{MEANING[worst]}.")
        return
    typer.echo(f"The ledger holds: {held.events} events in {held.seals} seals, as they were sealed.")
    if held.unsealed:
        typer.echo(f"{held.unsealed} more are not sealed yet; they hold together.")
    if trusted is None:
        typer.echo("Without a checkpoint from elsewhere (--checkpoint) it cannot show that nothing newer is lost.")
    else:
        typer.echo(f"It goes on from the checkpoint of {trusted.time:%Y-%m-%d %H:%M:%SZ} (seal {trusted.number}).")


def _as_json(held: Held | None, findings: list[Finding], trusted: Checkpoint | None) -> dict[str, object]:
    return {
        "holds": held is not None,
        "events": None if held is None else held.events,
        "seals": None if held is None else held.seals,
        "unsealed": None if held is None else held.unsealed,
        "checkpoint": None if held is None else held.checkpoint,
        "trusted_seal": None if trusted is None else trusted.number,
        "findings": [{"kind": each.kind, "exit": EXIT[each.kind], "what": each.what} for each in findings],
    }


def _proof(path: Path, keys: list[VerifierKey]) -> None:
    if not keys:
        raise typer.BadParameter("a proof is verified with a key that you trust: --key")
    try:
        content = path.read_text()
        kind = InclusionProof if '"header"' in content else ConsistencyProof
        proof = kind.model_validate_json(content)
    except OSError as problem:
        raise CommandError(f"{path} cannot be read: {problem.strerror}") from None
    except ValidationError:
        raise CommandError(f"{path} holds no proof") from None
    if not proof.holds(keys):
        raise CommandError("the proof does not hold")
    typer.echo("The proof holds.")
