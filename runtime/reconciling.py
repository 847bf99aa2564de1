"""Holds the ledger's refunds against the payment gateway's own list, with the service's credentials and egress
guard."""

from collections.abc import Collection, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime

from gateways.client import new_client
from gateways.credentials import Acting, acting
from gateways.protocols import PaymentGateway
from ledger.bookings import Refund
from ledger.ledger import Ledger
from ledger.periods import Period
from ledger.reconciling import TOLERANCE, Difference, by_operation, differences, without_operation
from ledger.refunds import Refunds
from ledger.vault import NoCredentialError
from runtime.assembly import outside_systems
from runtime.denials import Denials
from runtime.settings import Settings
from schemas import facts

_PAYMENTS = "payments"


@dataclass(frozen=True, slots=True)
class Reconciled:
    """`ours` and `theirs`: how many refunds of each were compared. `listed`: the gateway has a list by time; without it
    only payments that this service refunded were looked at."""

    period: Period
    gateway: str
    listed: bool
    ours: int
    theirs: int
    differences: Sequence[Difference]


async def reconcile(
    settings: Settings, ledger: Ledger, tools: Collection[str], tenant: str | None, period: Period
) -> Reconciled:
    """Of one tenant's refunds, or everyone's. Raises SystemUnavailable, VaultLockedError and SettingsError."""
    reader = Refunds(ledger.system, ledger.keys)
    ours = {
        each.operation_id: each
        async for each in reader.told(tenant, period, tools)
        if each.operation_id is not None and _is_in(each, period)
    }
    denials = Denials(ledger.streams, settings.tenant)
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(new_client())
        stack.push_async_callback(denials.drain)
        gateway = outside_systems(settings, ledger.credentials, client, {_PAYMENTS}, denials).payments
        who = {(each.call.tenant, each.call.tool) for each in ours.values()}
        who |= {(tenant or settings.tenant, tool) for tool in tools}
        listed = await _list(settings, ledger, gateway, who, period)
        theirs = {each.refund_id: each for each in listed or ()}
        there = by_operation(theirs.values())
        for operation_id, each in ours.items():
            if operation_id not in there and (listed is None or each.standing != "failed"):
                theirs |= {found.refund_id: found for found in await _look(gateway, each, listed=listed is not None)}
    found = [
        each for each in theirs.values() if each.operation_id in ours or period.since <= each.created_at < period.until
    ]
    there = by_operation(found)
    # As they are now: what was being sent when the first look was taken is known by now.
    known = await reader.by_operations({*ours, *there})
    if tenant is not None:
        there = {name: each for name, each in there.items() if name not in known or known[name].call.tenant == tenant}
    here = {name: each for name, each in known.items() if name in ours or name in there}
    differing = [*differences(here, there, datetime.now(UTC)), *without_operation(found)]
    return Reconciled(period, settings.payment_gateway, listed is not None, len(here), len(found), differing)


def _is_in(refund: Refund, period: Period) -> bool:
    """Whether it was sent or booked in the period, or is open at its end."""
    if refund.sent_at is None or refund.sent_at >= period.until:
        return False
    times = (refund.sent_at, *(each.at for each in refund.bookings))
    return refund.is_open or any(period.since <= at < period.until for at in times)


async def _list(
    settings: Settings, ledger: Ledger, gateway: PaymentGateway, who: Collection[tuple[str, str]], period: Period
) -> list[facts.Refund] | None:
    """What the gateway lists, asked once with each credential that there is."""
    asked, found = set[str](), list[facts.Refund]()
    for tenant, tool in sorted(who):
        try:
            record_id, _ = await ledger.credentials.select(tenant, settings.payment_gateway, tool)
        except NoCredentialError:
            record_id = "settings"
        if record_id in asked:
            continue
        asked.add(record_id)
        with acting(Acting(tenant, tool)):
            listed = await gateway.refunds_between(period.since - TOLERANCE, period.until + TOLERANCE)
        if listed is None:
            return None
        found += listed
    return found


async def _look(gateway: PaymentGateway, refund: Refund, *, listed: bool) -> list[facts.Refund]:
    """A refund that is in no list, by its payment: the gateway may have made it at another time. Without a list,
    whatever else there is of the payment too."""
    if refund.payment_id is None:
        return []
    with acting(Acting(refund.call.tenant, refund.call.tool)):
        found = await gateway.refunds(refund.payment_id)
    return [each for each in found if not listed or each.operation_id == refund.operation_id]
