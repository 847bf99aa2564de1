"""`counterseal up`: the embedded stack, from first progress line to clean stop."""

import asyncio
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from runtime.seed import seed
from runtime.stack.connection import StackInfo, data_folder
from runtime.stack.credentials import Credentials
from runtime.stack.errors import StackError
from runtime.stack.running import run_stack
from runtime.stack.services import Stack

app = typer.Typer()


@app.command(epilog="Example: counterseal up --data .counterseal --port 8080")
def up(
    data: Annotated[
        Path | None, typer.Option(help="Folder for all state [default: COUNTERSEAL_DATA, else .counterseal]")
    ] = None,
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="The API's port; a free one if taken")] = None,
    ready_file: Annotated[Path | None, typer.Option(help="Write addresses and sign-ins here once all answers")] = None,
    store: Annotated[
        Path | None,
        typer.Option(
            exists=True, file_okay=False, help="Folder with orders.jsonl and customers.jsonl for the sandbox store"
        ),
    ] = None,
) -> None:
    """Start the embedded stack and keep it up until Ctrl-C: Postgres, Temporal, sandbox, API, worker."""
    if ready_file is not None and not ready_file.absolute().parent.is_dir():
        raise StackError(f"the folder of {ready_file} does not exist")
    terminal = Console(stderr=True, highlight=False)
    folder = data_folder(data)
    began = time.monotonic()

    def report(line: str) -> None:
        terminal.print(f"{time.monotonic() - began:5.1f} s  {line}", markup=False, soft_wrap=True)

    report(f"starting on {folder.root}")

    def compose(ports: Mapping[str, int], credentials: Credentials) -> Stack:
        return Stack(folder, ports, credentials, caller=dict(os.environ), seed=seed, store=store and store.absolute())

    asyncio.run(
        run_stack(
            folder,
            compose,
            report=report,
            started=lambda info: show(info, Console(highlight=False)),
            port=port,
            ready_file=ready_file and ready_file.absolute(),
        )
    )


def show(info: StackInfo, terminal: Console) -> None:
    """Print where everything is and how to sign in."""
    table = Table(title="Counterseal is up (Ctrl-C stops it)", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("API and approvals", info.api)
    table.add_row("Temporal UI", info.temporal_ui)
    table.add_row("Temporal", f"{info.temporal} (namespace {info.namespace}, task queue {info.task_queue})")
    table.add_row("Database", info.database)
    table.add_row("Sandbox gateway", info.sandbox.gateway)
    table.add_row("Sandbox store", info.sandbox.store)
    table.add_row("Service token", info.service_token)
    table.add_row("Operator token", info.operator_token)
    for approver in info.approvers:
        table.add_row(f"Approver {approver.username}", approver.password)
    terminal.print(table)
