"""`counterseal customers`: erasing what there is of one."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.workflowservice.v1 import DeleteWorkflowExecutionRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from ledger.erasure import Extent, StillOpen
from ledger.ledger import Ledger
from runtime.cli.connecting import DataOption, JsonOption, find_place, open_ledger, whoami
from runtime.cli.errors import CommandError
from runtime.cli.output import plain, print_json
from runtime.cli.temporal import open_temporal

_EXAMPLE = 'Example: counterseal customers erase cus_0123456789 --tenant acme --reason "asked on 3 March"'
app = typer.Typer(no_args_is_help=True, add_completion=False, help="What there is of a customer.")

_NAMED = 20


@app.callback(epilog=_EXAMPLE)
def _customers() -> None:  # pyright: ignore[reportUnusedFunction]
    """A group, though it has one command."""


@app.command(epilog=_EXAMPLE)
def erase(
    customer_id: Annotated[str, typer.Argument(help="The customer, as runs name them")],
    tenant: Annotated[str, typer.Option(help="Whose customer")],
    reason: Annotated[str, typer.Option(help="Why; it is kept, so name nobody", metavar="TEXT")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask")] = False,
    keep_histories: Annotated[
        bool,
        typer.Option("--keep-histories", help="Leave their workflows' histories in Temporal until it forgets them"),
    ] = False,
    data: DataOption = None,
    as_json: JsonOption = False,
) -> None:
    """Destroy a customer's data keys, and with them all that was sealed under them, the histories of their calls in
    Temporal, and their id in what is left. Their runs end. Nothing brings it back but an older backup. Refused while a
    call of theirs has not ended."""
    if not reason.strip():
        raise typer.BadParameter("say why", param_hint="--reason")
    calls, histories = asyncio.run(_erase(customer_id, tenant, reason, data, ask=not yes, histories=not keep_histories))
    if as_json:
        print_json({"calls": calls, "histories_deleted": histories})
        return
    typer.echo(f"erased: {calls} calls; {histories} histories deleted in Temporal")


async def _erase(
    customer_id: str, tenant: str, reason: str, data: Path | None, *, ask: bool, histories: bool
) -> tuple[int, int]:
    """How many calls they had, and how many histories were deleted."""
    place = find_place(data)
    async with open_ledger(place) as ledger:
        extent = await ledger.erasures.extent(tenant, customer_id)
        if extent.nothing:
            raise CommandError(f"there is nothing of a customer {plain(customer_id)} of {plain(tenant)}")
        _refuse(extent.open)
        if ask:
            typer.confirm(_question(extent), abort=True, err=True)
        # First, so that it can be run again when Temporal is away: afterwards nothing says whose they were.
        deleted = 0
        if histories:
            client = await open_temporal(place.master(), data)
            deleted = await _delete(client, await ledger.erasures.workflows(tenant, customer_id))
        return await _destroy(ledger, tenant, customer_id, reason), deleted


async def _destroy(ledger: Ledger, tenant: str, customer_id: str, reason: str) -> int:
    try:
        return await ledger.erasures.erase(tenant, customer_id, by=whoami(), reason=reason)
    except StillOpen as problem:
        _refuse(problem.request_ids)
        raise


def _refuse(open_: list[str] | tuple[str, ...]) -> None:
    if open_:
        more = f" and {len(open_) - _NAMED} more" if len(open_) > _NAMED else ""
        raise CommandError(f"calls of theirs have not ended yet: {', '.join(open_[:_NAMED])}{more}")


def _question(extent: Extent) -> str:
    watched = f", {extent.watched} of them watched for a late failure" if extent.watched else ""
    runs = f", and end {extent.runs} runs" if extent.runs else ""
    return f"Erase {extent.calls} calls{watched}, {extent.approvals} approvals{runs}, for ever?"


async def _delete(client: Client, workflow_ids: list[str]) -> int:
    """Delete histories of workflows that have ended; those that Temporal no longer has are none."""
    deleted = 0
    try:
        for each in workflow_ids:
            request = DeleteWorkflowExecutionRequest(
                namespace=client.namespace, workflow_execution=WorkflowExecution(workflow_id=each)
            )
            try:
                await client.workflow_service.delete_workflow_execution(request)
                deleted += 1
            except RPCError as problem:
                if problem.status is not RPCStatusCode.NOT_FOUND:
                    raise
    except RPCError as problem:
        raise CommandError(
            f"Temporal did not delete a history ({problem.status.name.lower()}); nothing was erased in the ledger"
        ) from None
    return deleted
