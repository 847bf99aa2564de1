"""How `counterseal report refunds --reconcile` finds the gateway, and says what differs."""

import os
from datetime import UTC
from pathlib import Path

from rich.text import Text

from api.pages.text import money
from gateways.protocols import SystemUnavailable
from ledger.ledger import Ledger
from ledger.periods import Period
from ledger.reconciling import TOLERANCE, Difference
from ledger.vault import VaultLockedError, WrongMasterKeyError
from runtime.cli.connecting import is_stack, with_ledger
from runtime.cli.errors import CommandError
from runtime.cli.output import console, instant, plain
from runtime.reconciling import Reconciled, reconcile
from runtime.settings import Settings, SettingsError
from runtime.settings import load as load_settings
from runtime.stack.connection import find_stack
from schemas import facts

_HERE = {"in_review": "waiting for a person", "unknown": "not known", "stands": "done", "failed": "not done"}
_PARTLY = (
    "The gateway has no list of refunds by time: only payments that this service refunded were looked at, and refunds"
    " of others are not seen."
)


def reconciled(data: Path | None, tools: list[str], tenant: str | None, period: Period) -> Reconciled:
    """Ask the gateway. Raises CommandError."""
    try:
        settings = _settings(data)

        async def work(ledger: Ledger) -> Reconciled:
            return await reconcile(settings, ledger, tools, tenant, period)

        return with_ledger(data, work)
    except SettingsError as error:
        raise CommandError(str(error)) from None
    except SystemUnavailable as error:
        raise CommandError(f"the payment gateway cannot be read: {error.problem.replace('_', ' ')}") from None
    except VaultLockedError:
        raise CommandError("the vault is locked, so there is no credential for the payment gateway") from None
    except WrongMasterKeyError:
        raise CommandError("the gateway's credential does not open: the master key is another one") from None


def _settings(data: Path | None) -> Settings:
    """The service's own; those of a running stack know where its sandbox is."""
    if not is_stack(data):
        return load_settings()
    stack = find_stack(data)
    return load_settings(
        database_url=stack.database,
        sandbox_gateway_url=stack.sandbox.gateway,
        # The sandbox, and whatever else on this machine takes its place.
        private_networks=os.environ.get("COUNTERSEAL_PRIVATE_NETWORKS", "payments,orders"),
    )


def as_json(found: Reconciled) -> dict[str, object]:
    return {
        "since": found.period.since,
        "until": found.period.until,
        "gateway": found.gateway,
        "complete": found.listed,
        "tolerance_seconds": int(TOLERANCE.total_seconds()),
        "compared": {"here": found.ours, "there": found.theirs},
        "differences": [_plain(each) for each in found.differences],
    }


def show(found: Reconciled) -> None:
    """Print a line for each difference, or that there is none."""
    terminal = console()
    since, until = instant(found.period.since), instant(found.period.until)
    terminal.print(
        Text(f"{found.gateway}: {found.ours} refunds of the ledger, {found.theirs} of the gateway, {since} to {until}")
    )
    if not found.listed:
        terminal.print(Text(_PARTLY))
    if not found.differences:
        terminal.print(Text("They agree."))
        return
    for each in found.differences:
        terminal.print(Text(_line(each)), soft_wrap=True)
    count = len(found.differences)
    terminal.print(Text(f"{count} {'difference' if count == 1 else 'differences'}."))


def _line(each: Difference) -> str:
    """`act_…: what differs (here done 25.00 USD; there re_1 failed 25.00 USD)`."""
    there = " and ".join(f"{refund.refund_id} {refund.status} {_amount(refund)}" for refund in each.there)
    sides = [f"here {_here(each)}"] if each.here is not None else []
    sides += [f"there {there}"] if there else []
    named = each.request_id or each.operation_id
    return plain(f"{f'{named}: ' if named else ''}{each.sentence} ({'; '.join(sides)})").replace("\n", "\\n")


def _here(each: Difference) -> str:
    known = each.here_amount is not None and each.here_currency is not None
    amount = money(each.here_amount, each.here_currency) if known else ""  # pyright: ignore[reportArgumentType]
    return f"{_HERE.get(each.here or '', each.here)} {amount}".strip()


def _amount(refund: facts.Refund) -> str:
    return money(refund.amount_cents, refund.currency)


def _plain(each: Difference) -> dict[str, object]:
    return {
        "difference": each.kind,
        "sentence": each.sentence,
        "request_id": each.request_id,
        "operation_id": each.operation_id,
        "here": None
        if each.here is None
        else {"state": each.here, "amount_minor": each.here_amount, "currency": each.here_currency},
        "there": [_refund(refund) for refund in each.there],
    }


def _refund(refund: facts.Refund) -> dict[str, object]:
    return {
        "refund_id": refund.refund_id,
        "status": refund.status,
        "amount_minor": refund.amount_cents,
        "currency": refund.currency,
        "at": refund.created_at.astimezone(UTC),
    }
