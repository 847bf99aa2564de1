"""What activities work with."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from activities.patience import Patience
from gateways.credentials import Acting, acting
from gateways.egress import declared
from gateways.http import at_most
from gateways.protocols import Systems
from ledger.ledger import Ledger, TenantLedger
from ledger.records import CallRecord
from ledger.signing import DecisionVerifier
from notices.registry import Telling
from policy.in_force import InForce
from policy.model import Policy
from schemas.ids import tenant_of
from schemas.tools import queue_name
from tools.catalog import Catalog, Entry

__all__ = ["CrashPoint", "Services", "benign", "workflow_id"]

# Where a process may be made to die, to prove that nothing is lost or done twice by it.
CrashPoint = Literal[
    "intent.before", "intent.after", "send.before", "send.after", "record.before", "record.after", "completion.before"
]


@dataclass(frozen=True, slots=True)
class Services:
    """Handed in by the composition root.

    `inline`: this process may send effects in the workflow's own task: a free call's within `admit`, an approved one's
    within `execute_here`. Otherwise effects run on the task queue `{task_queue}-{manifest.queue}`.
    `systems` is None where no credential is held: calls are admitted on their effects' queue then.
    `tenant` is whose operators find what belongs to no tenant.
    `shadow` is a candidate that is asked beside the policy in force; what it says is written down, and that is all.
    `telling` is what notices are sent with, where this process serves the queue of messages.
    `committed` is called with each call that this process just moved on, `reached` at each crash
    point, which outside of the fault machine is nothing.
    """

    ledger: Ledger
    catalog: Catalog
    policies: InForce
    systems: Systems | None
    verifier: DecisionVerifier
    task_queue: str
    tenant: str
    inline: bool
    committed: Callable[[CallRecord], None]
    patience: Patience = field(default_factory=Patience)
    reached: Callable[[CrashPoint], None] = lambda point: None
    telling: Telling | None = None
    shadow: Policy | None = None

    @property
    def here(self) -> TenantLedger:
        """The ledger of the tenant whose call the running activity works on: no workflow reaches into another's."""
        tenant = tenant_of(workflow_id())
        if tenant is None:
            raise benign("this activity is for calls only", "NoCall")
        return self.ledger.of(tenant)

    @contextmanager
    def outside(self, entry: Entry, tenant: str) -> Generator[Systems]:
        """The remote systems, while a tool works with them for a tenant, with the credentials of these two; those that
        its manifest does not name are closed to it."""
        if self.systems is None:
            raise LookupError("this process serves no queue that has credentials")
        manifest = entry.manifest
        with (
            declared(manifest.systems, manifest.writes_to),
            at_most(manifest.timeout_seconds),
            acting(Acting(tenant, manifest.name)),
        ):
            yield self.systems

    def effect_queue(self, tool: str) -> str:
        entry = self.catalog.get(tool)
        return queue_name(self.task_queue, entry.manifest.queue) if entry else self.task_queue

    def moved(self, record: CallRecord) -> CallRecord:
        self.committed(record)
        return record


def benign(message: str, kind: str) -> ApplicationError:
    """A refusal to do something that repeating cannot change; not an error of the service."""
    return ApplicationError(message, type=kind, non_retryable=True, category=ApplicationErrorCategory.BENIGN)


def workflow_id() -> str:
    """The workflow that asked for the activity that runs now."""
    found = activity.info().workflow_id
    if found is None:
        raise benign("this activity is for workflows only", "NoWorkflow")
    return found
