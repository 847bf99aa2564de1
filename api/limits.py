"""Bounds on refused requests. A good request is never counted, and never refused for what was refused before."""

import hashlib
from functools import lru_cache
from typing import NamedTuple

import structlog
from fastapi import Request

from api.attempts import network
from ledger.attempts import Attempts, Standing, Window
from ledger.database import UNAVAILABLE
from ledger.principals import Principal
from schemas.codes import Code
from schemas.replies import Explanation, Reply, reply_for

_log = structlog.get_logger()
_INVALID = frozenset({Code.INVALID_INPUT, Code.FORBIDDEN, Code.TOOL_NOT_AVAILABLE, Code.IDEMPOTENCY_CONFLICT})
# However many networks there are, the table of counts has this many at most; two that share a slot share its count.
_SLOTS = 65_536


class Pace(NamedTuple):
    per_minute: int
    per_hour: int

    def windows(self, subject: str) -> list[Window]:
        return [Window(subject, 60, self.per_minute), Window(subject, 3600, self.per_hour)]


class Limits(NamedTuple):
    """How many refusals are explained. Who fails to authenticate is known by address alone, so those are counted by it;
    invalid calls by the token's holder, and together by address, from which many agents may call."""

    failed_authentications: Pace = Pace(30, 300)
    invalid_calls: Pace = Pace(60, 600)
    invalid_calls_by_address: Pace = Pace(600, 6000)
    warn_from: int = 10


async def count_refusal(request: Request, reply: Reply, attempts: Attempts, limits: Limits) -> Reply:
    """What to answer to a request that was refused with `reply`: the reply, with `attempts_remaining` once few are
    left, or RATE_LIMITED once there are none. What is neither a failed authentication nor an invalid call stays.
    """
    principal: Principal | None = getattr(request.state, "principal", None)
    windows = _windows(reply.code, principal, _address(request), limits)
    if not windows:
        return reply
    try:
        standing = await attempts.count(windows)
    except UNAVAILABLE as problem:
        # It is refused either way.
        _log.warning("refusal_not_counted", problem=type(problem).__name__)
        return reply
    return judged(reply, standing, limits.warn_from)


def judged(reply: Reply, standing: Standing, warn_from: int) -> Reply:
    """Pure. The reply in the light of how many refusals there were."""
    if standing.retry_after_seconds is not None:
        return _over(reply, standing.retry_after_seconds)
    if standing.remaining >= warn_from:
        return reply
    said = f"{reply.message} Attempts remaining before you have to wait: {standing.remaining}."
    return reply.model_copy(update={"attempts_remaining": standing.remaining, "message": said})


def _windows(code: Code, principal: Principal | None, address: str, limits: Limits) -> list[Window]:
    if code is Code.UNAUTHENTICATED:
        return limits.failed_authentications.windows(f"authentication:{address}")
    if code in _INVALID and principal is not None:
        by_holder = limits.invalid_calls.windows(f"calls:{_holder(principal)}")
        return by_holder + limits.invalid_calls_by_address.windows(f"calls:{address}")
    return []


def _over(reply: Reply, seconds: int) -> Reply:
    if reply.code is Code.UNAUTHENTICATED:
        because, action = "too many failed authentications from this address", None
        repair = "Do not try this token again. Stop and report this to the operator of the agent."
    else:
        because, action = "too many refused calls", "retry_after_delay"
        repair = f"Nothing was done. Wait {seconds} seconds, correct the call, and only then send it."
    said = Explanation(
        values={"because": because, "repair": repair},
        action=action,
        retry_after_seconds=seconds,
        attempts_remaining=0,
    )
    return reply_for(Code.RATE_LIMITED, reply.request_id, said)


def _holder(principal: Principal) -> str:
    if principal.binding is not None:
        return principal.binding.run_id
    return f"{principal.kind}:{principal.tenant}/{principal.name}"


def _address(request: Request) -> str:
    """The peer's slot: no address is stored."""
    return _slot(request.client.host if request.client else "")


@lru_cache(maxsize=1024)
def _slot(host: str) -> str:
    return f"address:{int.from_bytes(hashlib.sha256(network(host).encode()).digest()[:4]) % _SLOTS}"
