"""`counterseal ledger`: what shows that the ledger is as it was."""

import typer

from runtime.cli.ledger_export import export
from runtime.cli.ledger_proofs import checkpoint, prove, rotate_key
from runtime.cli.ledger_rebuild import rebuild
from runtime.cli.ledger_retention import retention
from runtime.cli.ledger_verify import verify

app = typer.Typer(
    no_args_is_help=True, add_completion=False, help="The ledger: export it, verify it, prove what it has."
)

app.command(epilog="Example: counterseal ledger export --out audit/")(export)
app.command(epilog="Example: counterseal ledger verify --export audit/ --checkpoint kept/checkpoints.jsonl")(verify)
app.command(epilog="Example: counterseal ledger checkpoint --out kept/checkpoint.txt")(checkpoint)
app.command(epilog="Example: counterseal ledger prove act_0123456789abcdef0123456789abcdef 3 --out proof.json")(prove)
app.command(name="rotate-key", epilog="Example: counterseal ledger rotate-key")(rotate_key)
app.command(epilog="Example: counterseal ledger rebuild --check")(rebuild)
app.command(epilog="Example: counterseal ledger retention approval.viewed --days 400")(retention)
