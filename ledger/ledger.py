"""The ledger as one thing to hand around."""

from dataclasses import dataclass

from ledger.admission import Admissions
from ledger.alerts import Alerts
from ledger.approvals import Approvals
from ledger.attempts import Attempts
from ledger.calls import Calls
from ledger.claims import Claims
from ledger.data_keys import DataKeys
from ledger.database import Database, Pool
from ledger.delegations import Delegations
from ledger.diagnostics import Diagnostics
from ledger.erasure import Erasures
from ledger.gates import Gates
from ledger.inbox import Inbox
from ledger.keys import MasterKey
from ledger.leases import Leases
from ledger.notices import Notices
from ledger.passkeys import Passkeys
from ledger.policies import Policies
from ledger.principals import Principals
from ledger.rebuilding import Rebuilding
from ledger.related import Related
from ledger.retention import Pruner
from ledger.reviews import Reviews
from ledger.rewrapping import Rewrapping
from ledger.seals import Seals
from ledger.streams import Streams
from ledger.switches import Permits, Switches
from ledger.usage import Usages
from ledger.vault import Sealer, Selection, Vault


@dataclass(frozen=True, slots=True)
class TenantLedger:
    """What one tenant has; the database shows nothing else through it."""

    admissions: Admissions
    approvals: Approvals
    inbox: Inbox
    calls: Calls
    diagnostics: Diagnostics
    alerts: Alerts
    reviews: Reviews
    permits: Permits
    usage: Usages
    gates: Gates
    notices: Notices
    related: Related
    passkeys: Passkeys
    claims: Claims
    delegations: Delegations

    @classmethod
    def over(cls, pool: Pool, keys: DataKeys) -> "TenantLedger":
        calls = Calls(pool, keys)
        approvals = Approvals(pool, keys, calls)
        return cls(
            Admissions(pool, keys, calls),
            approvals,
            Inbox(pool, keys, approvals),
            calls,
            Diagnostics(pool, keys, calls),
            Alerts(pool),
            Reviews(pool, calls),
            Permits(pool),
            Usages(pool),
            Gates(pool),
            Notices(pool),
            Related(pool, keys),
            Passkeys(pool, keys),
            Claims(pool),
            Delegations(pool, keys),
        )


@dataclass(frozen=True, slots=True)
class Ledger:
    """Every tenant's ledger. Whoever acts for a tenant uses `of`; the rest is the service's own work."""

    database: Database
    keys: DataKeys
    principals: Principals
    attempts: Attempts
    admissions: Admissions
    approvals: Approvals
    calls: Calls
    diagnostics: Diagnostics
    alerts: Alerts
    notices: Notices
    switches: Switches
    leases: Leases
    policies: Policies
    streams: Streams
    seals: Seals
    vault: Vault
    credentials: Selection
    rewrapping: Rewrapping
    erasures: Erasures
    rebuilding: Rebuilding
    pruner: Pruner

    @classmethod
    def over(cls, database: Database, master: MasterKey) -> "Ledger":
        keys = DataKeys(master)
        everyones = TenantLedger.over(database.system, keys)
        policies = Policies(database.system, keys, master)
        return cls(
            database,
            keys,
            Principals(database, keys),
            Attempts(database),
            everyones.admissions,
            everyones.approvals,
            everyones.calls,
            everyones.diagnostics,
            everyones.alerts,
            everyones.notices,
            Switches(database.reserved, keys),
            Leases(database),
            policies,
            Streams(database.system, keys),
            Seals(database.system, master),
            Vault(database.system, Sealer(master)),
            Selection(database, Sealer(master)),
            Rewrapping(database.system, master, keys, policies),
            Erasures(database.system, keys),
            Rebuilding(database.system, keys),
            Pruner(database.system, keys),
        )

    def of(self, tenant: str) -> TenantLedger:
        """The ledger of one tenant, whose name comes from a token, a run or a stored row."""
        return TenantLedger.over(self.database.tenant(tenant), self.keys)

    @property
    def system(self) -> Pool:
        """Connections that see every tenant's rows."""
        return self.database.system

    async def ready(self) -> bool:
        """Whether the database answers. Raises what the driver raises when it does not."""
        return await self.system.fetchval("SELECT true") is True
