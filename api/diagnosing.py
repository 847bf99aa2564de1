"""Diagnostics of requests that end at the edge: noted in memory, written in the background, bounded in every way.

Whoever floods the service with bad requests fills neither the queue, nor the disk, nor the time of good ones: what is
more than the queue or the hourly budget holds is counted and dropped.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import structlog
from fastapi import Request
from opentelemetry import metrics

from ledger.data_keys import KeyDestroyed
from ledger.database import UNAVAILABLE
from ledger.diagnostics import Diagnostics, Holder
from ledger.principals import Principal, token_hash
from schemas.codes import Code
from schemas.diagnostics import Body, Diagnostic, EdgeRequest, Mark, RawException, Token
from schemas.replies import Reply

_log = structlog.get_logger()
_meter = metrics.get_meter("counterseal.api")
_REFUSED = _meter.create_counter("counterseal.edge.refused", description="Requests that ended at the edge, by code")
_DROPPED = _meter.create_counter("counterseal.edge.diagnostics_dropped", description="Diagnostics that were not kept")
_LONGEST_TOKEN = 512
_LONGEST_PAUSE = 30.0
_TRIES = 12
# Others say what the caller did; what it sent is not kept, and an exception may quote it.
_OURS = frozenset({Code.TEMPORARY_FAILURE, Code.INTERNAL_FAILURE})


@dataclass(frozen=True, slots=True)
class _Noted:
    diagnostic: Diagnostic
    edge: EdgeRequest
    token_hash: bytes | None
    holder: Holder | None
    """Who was found to hold the token; None where nobody was, who may have held it before."""


class _Budget:
    """So many an hour, all of an hour's at once where they were saved up."""

    def __init__(self, per_hour: int, clock: Callable[[], float]) -> None:
        self._per_hour = per_hour
        self._clock = clock
        self._left = float(per_hour)
        self._at = clock()

    def take(self) -> bool:
        now = self._clock()
        self._left = min(self._per_hour, self._left + (now - self._at) * self._per_hour / 3600)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class EdgeDiagnostics:
    """Takes notes of refusals and writes them when there is time. `tenant` gets those of callers that nobody knows."""

    def __init__(
        self,
        diagnostics: Diagnostics,
        *,
        tenant: str,
        per_hour: int = 3600,
        capacity: int = 1000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._diagnostics = diagnostics
        self._tenant = tenant
        self._capacity = capacity
        self._budget = _Budget(per_hour, clock)
        self._queue: deque[_Noted] = deque()
        self._task: asyncio.Task[None] | None = None
        self.dropped = 0

    def note(self, request: Request, reply: Reply, status: int, cause: BaseException | None = None) -> None:
        """Note a request that is about to be answered with `reply`; never waits. `cause` is what was raised, if any.

        Of the request's body only the size and fingerprint of what was read are taken, of its token only the hash.
        """
        _REFUSED.add(1, {"code": reply.code.value})
        if len(self._queue) >= self._capacity or not self._budget.take():
            self._drop(1)
            return
        token = _token(request)
        edge = EdgeRequest(
            method=request.method[:16],
            route=getattr(request.scope.get("route"), "path", None),
            peer=request.client.host if request.client else None,
            http_status=status,
            token=None,
            body=self._body(request),
        )
        elapsed = _elapsed_ms(request)
        validated = getattr(request.state, "input_validated", False)
        diagnostic = Diagnostic(
            request_id=reply.request_id,
            step="edge",
            began_at=datetime.now(UTC) - timedelta(milliseconds=elapsed),
            elapsed_ms=elapsed,
            status=reply.status,
            code=reply.code,
            told=reply.message,
            marks=(Mark(name="input_validated", after_ms=elapsed),) if validated else (),
            failure=RawException.of(cause, hide=(token or "",)) if cause and reply.code in _OURS else None,
        )
        hashed = token_hash(token) if token else None
        self._queue.append(_Noted(diagnostic, edge, hashed, _holder(request)))
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._write())

    async def drain(self, seconds: float = 5.0) -> None:
        """Write what was noted, for at most so long; then stop."""
        if self._task is None:
            return
        _, pending = await asyncio.wait([self._task], timeout=seconds)
        for task in pending:
            task.cancel()
        self._drop(len(self._queue))
        self._queue.clear()

    def _drop(self, count: int) -> None:
        if not count:
            return
        self.dropped += count
        _DROPPED.add(count)
        if self.dropped == count or self.dropped % 1000 < count:
            _log.warning("edge_diagnostics_dropped", dropped=self.dropped)

    def _body(self, request: Request) -> Body | None:
        read: bytearray | None = getattr(request.state, "body_read", None)
        return None if read is None else Body(size=len(read), fingerprint=self._diagnostics.fingerprint(bytes(read)))

    async def _write(self) -> None:
        while self._queue:
            pause = 0.5
            for _ in range(_TRIES):
                try:
                    await self._keep(self._queue[0])
                    break
                except UNAVAILABLE:
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE)
                except Exception as problem:  # noqa: BLE001 - the others behind it are written all the same
                    _log.warning("edge_diagnostic_not_kept", error_type=type(problem).__name__)
                    self._drop(1)
                    break
            else:
                self._drop(1)
            self._queue.popleft()

    async def _keep(self, noted: _Noted) -> None:
        holder = noted.holder or Holder(None)
        if noted.holder is None and noted.token_hash is not None:
            holder = await self._diagnostics.holder(noted.token_hash)
        edge = noted.edge.model_copy(update={"token": holder.token})
        diagnostic = noted.diagnostic.model_copy(update={"edge": edge})
        tenant = holder.tenant or self._tenant
        try:
            await self._diagnostics.store(diagnostic, tenant, holder.customer_id)
        except KeyDestroyed:
            # The run's customer was erased; nothing of theirs is in this.
            await self._diagnostics.store(diagnostic, tenant)


def _token(request: Request) -> str | None:
    offered = request.headers.getlist("authorization")
    scheme, _, value = offered[0].partition(" ") if len(offered) == 1 else ("", "", "")
    value = value.strip()
    return value if scheme.lower() == "bearer" and 0 < len(value) <= _LONGEST_TOKEN else None


def _holder(request: Request) -> Holder | None:
    principal: Principal | None = getattr(request.state, "principal", None)
    if principal is None or principal.token_id is None:
        return None
    binding = principal.binding
    token = Token(
        state="live",
        token_id=principal.token_id,
        kind=principal.kind,
        principal=principal.name,
        run_id=binding.run_id if binding else None,
    )
    return Holder(token, principal.tenant, binding.customer_id if binding else None)


def _elapsed_ms(request: Request) -> int:
    began = getattr(request.state, "began", None)
    return 0 if began is None else round((time.monotonic() - began) * 1000)
