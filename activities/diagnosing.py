"""One step of a call, followed: what ends badly in it leaves a protected account."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import structlog
from temporalio import activity
from temporalio.exceptions import ApplicationError

from activities.services import Services, benign
from gateways.trail import Trail, followed
from ledger.data_keys import KeyDestroyed
from ledger.database import UNAVAILABLE
from ledger.records import CallRecord
from schemas.calls import Binding
from schemas.codes import REGISTRY, Code, Status
from schemas.diagnostics import Diagnostic, RawException, StepName

_log = structlog.get_logger()
_BAD: frozenset[Status] = frozenset({"refused", "denied", "expired", "failed", "outcome_unknown"})
# The call does not wait longer for its diagnostic; the outcome is committed by then.
_LONGEST_SECONDS = 5


class Account:
    """The account of one step, kept when the step ends badly. What keeps it from being written never fails the call."""

    def __init__(self, services: Services, name: StepName, request_id: str) -> None:
        self.trail = Trail(services.ledger.diagnostics.fingerprint)
        self._services = services
        self._name: StepName = name
        self._request_id = request_id
        self._binding: Binding | None = None
        self._tool: str | None = None

    def made_by(self, binding: Binding, tool: str) -> None:
        """Whose call it is, known before there is a record of it."""
        self._binding, self._tool = binding, tool

    def about(self, record: CallRecord) -> None:
        """The step goes on with a call that was admitted, so its input was valid then."""
        self.made_by(record.details.call.binding, record.tool)
        self.trail.mark("input_validated")

    async def ended(self, record: CallRecord) -> None:
        """The step ended here; nothing is kept of one that ended well."""
        if record.status in _BAD:
            await self.keep(record)

    async def keep(self, record: CallRecord, *, failure: Exception | None = None) -> None:
        """Keep the account, however the call stands."""
        decision = record.details.decision
        await self._store(
            self._begun(record.workflow_id).model_copy(
                update={
                    "status": record.status,
                    "code": record.code,
                    "told": _told(record),
                    "verdict": record.verdict,
                    "rule": decision.rule if decision else None,
                    "because": decision.because if decision else None,
                    "policy_version": record.policy_version,
                    "failure": RawException.of(failure) if failure else None,
                }
            )
        )

    async def failed(self, problem: Exception) -> None:
        """Keep what broke the step off. Of a step that breaks off again and again, ever fewer times are kept."""
        attempt = activity.info().attempt
        if attempt & (attempt - 1):
            return
        if isinstance(problem, ApplicationError) and not problem.non_retryable:
            # It only asks to be asked again later.
            return
        refusal = problem.type if isinstance(problem, ApplicationError) else None
        code = Code.TEMPORARY_FAILURE if isinstance(problem, UNAVAILABLE) else Code.INTERNAL_FAILURE
        if refusal is not None:
            code = Code(refusal) if refusal in Code.__members__ else Code.FORBIDDEN
        await self._store(
            self._begun(activity.info().workflow_id).model_copy(
                update={
                    "status": REGISTRY[code].status if refusal else None,
                    "code": code,
                    "problem": refusal or self.trail.problem,
                    "failure": RawException.of(problem),
                }
            )
        )

    def _begun(self, workflow_id: str | None) -> Diagnostic:
        trail = self.trail
        return Diagnostic(
            request_id=self._request_id,
            step=self._name,
            attempt=activity.info().attempt,
            began_at=trail.began_at,
            elapsed_ms=trail.elapsed_ms,
            tool=self._tool,
            workflow_id=workflow_id,
            outcome=trail.outcome,
            problem=trail.problem,
            marks=trail.boundaries(),
            exchanges=tuple(trail.exchanges),
        )

    async def _store(self, diagnostic: Diagnostic) -> None:
        binding = self._binding
        tenant, customer_id = (binding.tenant, binding.customer_id) if binding else (self._services.tenant, None)
        try:
            async with asyncio.timeout(_LONGEST_SECONDS):
                # Not the tenant's own ledger: that would not see that the id is one of another tenant's calls.
                await self._services.ledger.diagnostics.store(diagnostic, tenant, customer_id)
        except Exception as problem:  # noqa: BLE001 - the call has ended already, or is about to with its own exception
            _log.warning("diagnostic_not_kept", request_id=self._request_id, error_type=type(problem).__name__)


@asynccontextmanager
async def followed_step(services: Services, name: StepName, request_id: str) -> AsyncGenerator[Account]:
    """Follow one step; an exception that leaves it is kept and goes on. Of a customer who was erased nothing is kept,
    and no repeating helps."""
    account = Account(services, name, request_id)
    with followed(account.trail):
        try:
            yield account
        except KeyDestroyed:
            raise benign("its customer was erased", "Erased") from None
        except Exception as problem:
            await account.failed(problem)
            raise


def _told(record: CallRecord) -> str | None:
    try:
        return record.reply().message
    except KeyError:
        return None
