"""The `counterseal` program: a list of commands, each imported only when it is asked for.

Every module in `COMMANDS` has a `typer.Typer` named `app`: with one command it is that command, with several it is a
group. Exit status: 0 success, 1 the command's own failure, 2 wrong usage, 130 interrupted.
"""

import gc
import importlib
import logging
import os
import sys
import traceback
from typing import Any, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from runtime.cli.errors import CommandError
from runtime.stack.errors import StackError

# name -> (module, the line in `counterseal --help`)
COMMANDS: dict[str, tuple[str, str]] = {
    "api": ("runtime.cli.api", "Serve the HTTP API and the web form."),
    "worker": ("runtime.cli.worker", "Work off the task queues."),
    "up": ("runtime.cli.up", "Start the embedded stack: Postgres, Temporal, sandbox, API, worker."),
    "demo": ("runtime.cli.demo", "Start everything and play the demo agent."),
    "play": ("runtime.cli.play", "Play a file of recorded agent calls and compare the answers."),
    "eval": ("runtime.cli.evaluate", "Play the evaluation set, and report what held."),
    "runs": ("runtime.cli.runs", "Open a run for an agent."),
    "mcp": ("runtime.cli.mcp", "Give a local agent the tools of a run, over the Model Context Protocol."),
    "migrate": ("runtime.cli.migrate", "Bring the database to the current schema."),
    "backup": ("runtime.cli.backup", "Back up the database of the ledger."),
    "restore": ("runtime.cli.restore", "Restore a backup into an empty database, and verify it."),
    "users": ("runtime.cli.users", "Add, list or disable the people who decide."),
    "tokens": ("runtime.cli.tokens", "Issue, list or revoke bearer tokens."),
    "tools": ("runtime.cli.tools", "The inventory of tools, whether it holds together, and what servers advertise."),
    "calls": ("runtime.cli.calls", "List calls, and tell what became of one."),
    "ledger": ("runtime.cli.ledger", "Export, verify and prove what the ledger has, and rebuild its projections."),
    "customers": ("runtime.cli.customers", "Erase a customer."),
    "decisions": ("runtime.cli.decisions", "What people decided, as evidence that can be checked anywhere."),
    "diagnostics": ("runtime.cli.diagnostics", "Open the protected diagnostics of a request."),
    "switches": ("runtime.cli.switches", "Kill switches, and the lock of the vault."),
    "keys": ("runtime.cli.keys", "Master keys: list, rotate, rewrap."),
    "vault": ("runtime.cli.vault", "Credentials of remote systems."),
    "notices": ("runtime.cli.notices", "What people were told, and trying a channel out."),
    "report": ("runtime.cli.report", "How gates do, and what became of refunds."),
    "policy": ("runtime.cli.policy", "Show, check, try out or change a policy."),
    "versions": ("runtime.cli.versions", "Builds that run side by side."),
    "replay": ("runtime.cli.replay", "Run today's workflow code over recorded or live histories."),
}

# After how many new objects Python looks for cycles of them that nobody needs. Imports make half a million that all
# stay: with its own 700 a seventh of a process's start goes into looking through them.
_OBJECTS = 50_000


class _LazyGroup(TyperGroup):
    """Lists the commands by name and help line alone; imports the one that runs."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, (_, summary) in COMMANDS.items():
            self.add_command(TyperCommand(name, help=summary))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, _, rest = super().resolve_command(ctx, args)
        module, _ = COMMANDS[str(name)]
        command = typer.main.get_command(importlib.import_module(module).app)
        command.name = name
        return name, command, rest


app = typer.Typer(
    name="counterseal", cls=_LazyGroup, add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True
)


@app.callback(epilog="Example: counterseal up --data .counterseal")
def _counterseal() -> None:  # pyright: ignore[reportUnusedFunction]
    """Approvals, and exactly one execution, for what AI agents may not do on their own."""


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit status. Errors become one line on stderr."""
    try:
        status = app(arguments, prog_name="counterseal", standalone_mode=False)
        return status if isinstance(status, int) else 0
    except typer.TyperException as error:
        if message := error.format_message():  # empty: help was shown instead
            _complain(message)
        return error.exit_code
    except (CommandError, StackError) as error:
        _complain(str(error))
        return 1
    except (KeyboardInterrupt, typer.Abort):
        return 130
    except BrokenPipeError:
        return 1
    except Exception as error:  # noqa: BLE001 - the last line of defence: no traceback at the terminal
        if os.environ.get("COUNTERSEAL_DEBUG"):
            traceback.print_exc()
        _complain(f"internal error ({type(error).__name__}); COUNTERSEAL_DEBUG=1 shows where")
        return 1


def _complain(message: str) -> None:
    print(f"counterseal: {' '.join(message.split())}", file=sys.stderr)  # noqa: T201


def main() -> NoReturn:
    """Entry point of the console script."""
    gc.set_threshold(_OBJECTS)
    status = run(sys.argv[1:])
    logging.shutdown()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            status = status or 1
    if "temporalio" in sys.modules:
        # Python 3.11 may abort while it tears down the Temporal SDK's threads.
        os._exit(status)
    sys.exit(status)


if __name__ == "__main__":
    main()
