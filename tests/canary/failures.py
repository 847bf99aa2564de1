"""The ways in which a remote system fails, and what the service makes of each."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from gateways.protocols import Systems
from schemas.codes import Code
from schemas.diagnostics import BoundaryName
from tests.canary import probes
from tests.canary.outside import (
    Body,
    giving_away,
    login_page,
    malformed,
    oversized,
    store_error,
    stripe_error,
    wrong_shape,
)
from tests.canary.probes import Probe, Remote
from tests.canary.world import PATIENT_SECONDS, World
from tests.diagnostics.remotes import free_port, never_answer, reset_after_reading, serving, untrusted_tls

System = Literal["payments", "orders"]
Outside = Callable[[World, System], AbstractAsyncContextManager[str]]
_IMPATIENT_SECONDS = 0.5
_NOT_REACHED = (Code.NETWORK_UNREACHABLE, Code.NETWORK_UNREACHABLE)
_LOST = (Code.OUTCOME_UNKNOWN, Code.OUTCOME_UNKNOWN)


@dataclass(frozen=True)
class Failure:
    """`reading`: codes of a refund whose payment, and of a look-up whose orders, cannot be read; `sending`: codes of a
    refund and of a cancellation that fail so. `reached`: the last boundary that the exchange passes."""

    name: str
    outside: Outside
    reading: tuple[Code, Code]
    sending: tuple[Code, Code]
    reached: BoundaryName = "response_received"
    deadline: float = PATIENT_SECONDS


def answers(status: str, payments: Body, orders: Body, *headers: str, media_type: str = "application/json") -> Outside:
    @asynccontextmanager
    async def outside(world: World, system: System) -> AsyncGenerator[str]:
        body = payments if system == "payments" else orders
        async with serving(giving_away(world.planted, status, body, *headers, media_type=media_type)) as base:
            yield base

    return outside


@asynccontextmanager
async def no_such_host(world: World, system: System) -> AsyncGenerator[str]:
    """Resolved by nobody, and nobody outside of this machine is asked."""
    resolve = socket.getaddrinfo

    def nobody_knows(host: Any, *rest: Any, **more: Any) -> Any:
        if str(host).endswith(".invalid"):
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return resolve(host, *rest, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", nobody_knows)
        yield f"https://{system}.invalid"


@asynccontextmanager
async def untrusted(world: World, system: System) -> AsyncGenerator[str]:
    assert world.settings.master_key_file is not None
    folder = world.settings.master_key_file.parent
    async with serving(never_answer, untrusted_tls(folder)) as base:
        yield base


@asynccontextmanager
async def refused(world: World, system: System) -> AsyncGenerator[str]:
    yield f"http://127.0.0.1:{free_port()}"


@asynccontextmanager
async def silent_before(world: World, system: System) -> AsyncGenerator[str]:
    """The TLS handshake never ends, so no byte of the request leaves."""
    async with serving(never_answer) as base:
        yield base.replace("http:", "https:")


@asynccontextmanager
async def silent_after(world: World, system: System) -> AsyncGenerator[str]:
    async with serving(never_answer) as base:
        yield base


@asynccontextmanager
async def resetting(world: World, system: System) -> AsyncGenerator[str]:
    async with serving(reset_after_reading) as base:
        yield base


FAILURES = [
    Failure(
        "the remote answers 401",
        answers("401 Unauthorized", stripe_error("authentication_error"), store_error("unauthorized")),
        (Code.AUTH_FAILED, Code.AUTH_FAILED),
        (Code.AUTH_FAILED, Code.AUTH_FAILED),
    ),
    Failure(
        "the remote answers 403",
        answers("403 Forbidden", stripe_error("permission_error"), store_error("forbidden")),
        (Code.REMOTE_FORBIDDEN, Code.REMOTE_FORBIDDEN),
        (Code.REMOTE_FORBIDDEN, Code.REMOTE_FORBIDDEN),
    ),
    Failure(
        "the remote answers 404",
        answers("404 Not Found", stripe_error("invalid_request_error", "resource_missing"), store_error("not_found")),
        (Code.NOT_REFUNDABLE, Code.NETWORK_UNREACHABLE),
        (Code.REMOTE_REFUSED, Code.REMOTE_REFUSED),
    ),
    Failure(
        "the remote answers 422",
        answers("422 Unprocessable Content", stripe_error("invalid_request_error"), store_error("invalid_request")),
        _NOT_REACHED,
        (Code.OUTCOME_UNKNOWN, Code.REMOTE_REFUSED),
    ),
    Failure(
        "the remote answers 429",
        answers(
            "429 Too Many Requests", stripe_error("rate_limit_error"), store_error("rate_limited"), "Retry-After: 17"
        ),
        _NOT_REACHED,
        (Code.RATE_LIMITED, Code.RATE_LIMITED),
    ),
    Failure(
        "the remote answers 500",
        answers("500 Internal Server Error", stripe_error("api_error"), store_error("internal")),
        _NOT_REACHED,
        _LOST,
    ),
    Failure("its name is not resolved", no_such_host, _NOT_REACHED, _NOT_REACHED, "connection_started"),
    Failure("its TLS certificate is not trusted", untrusted, _NOT_REACHED, _NOT_REACHED, "connection_started"),
    Failure("it refuses the connection", refused, _NOT_REACHED, _NOT_REACHED, "connection_started"),
    Failure(
        "the deadline passes before any byte",
        silent_before,
        _NOT_REACHED,
        _NOT_REACHED,
        "connection_started",
        deadline=_IMPATIENT_SECONDS,
    ),
    Failure(
        "the deadline passes after the bytes",
        silent_after,
        _NOT_REACHED,
        _LOST,
        "bytes_sent",
        deadline=_IMPATIENT_SECONDS,
    ),
    Failure("it resets the connection", resetting, _NOT_REACHED, _LOST, "bytes_sent"),
    Failure("it answers malformed JSON", answers("200 OK", malformed, malformed), _NOT_REACHED, _LOST),
    Failure("it answers JSON of another shape", answers("200 OK", wrong_shape, wrong_shape), _NOT_REACHED, _LOST),
    Failure(
        "it answers with a login page",
        answers("200 OK", login_page, login_page, media_type="text/html"),
        _NOT_REACHED,
        _LOST,
    ),
    Failure(
        "its body repeats the Authorization header",
        answers("400 Bad Request", stripe_error("invalid_request_error"), store_error("invalid_request")),
        _NOT_REACHED,
        (Code.REMOTE_REFUSED, Code.REMOTE_REFUSED),
    ),
    Failure(
        "its body tells the agent to run a command",
        answers("401 Unauthorized", stripe_error("invalid_request_error"), store_error("unauthorized")),
        (Code.AUTH_FAILED, Code.AUTH_FAILED),
        (Code.AUTH_FAILED, Code.AUTH_FAILED),
    ),
    Failure("its body is too large", answers("200 OK", oversized, oversized), _NOT_REACHED, _LOST),
]


async def reading(world: World, failure: Failure) -> list[Probe]:
    """The payment of a refund cannot be read; then the orders that a look-up is about."""
    of_refund, of_lookup = failure.reading
    real = world.board.real
    played: list[Probe] = []
    async with failure.outside(world, "payments") as base:
        with world.board.led(reading=replace(real, payments=_there(world, failure, base).payments)):
            played.append(await _rested(world, probes.refund(world, of_refund, **_told(failure, base))))
    async with failure.outside(world, "orders") as base:
        with world.board.led(reading=replace(real, orders=_there(world, failure, base).orders)):
            played.append(await _rested(world, probes.lookup(world, of_lookup, **_told(failure, base))))
    return played


async def sending(world: World, failure: Failure) -> list[Probe]:
    """The facts are read; what is sent then fails, within admission and in an activity of its own, all at once."""
    of_refund, of_cancel = failure.sending
    async with failure.outside(world, "payments") as payments, failure.outside(world, "orders") as orders:
        hostile = replace(
            world.board.real,
            payments=_there(world, failure, payments).payments,
            orders=_there(world, failure, orders).orders,
        )
        with world.board.led(sending=hostile):
            played = await asyncio.gather(
                _rested(world, probes.refund(world, of_refund, **_told(failure, payments))),
                _rested(world, probes.approved_refund(world, of_refund, **_told(failure, payments))),
                _rested(world, probes.cancel(world, of_cancel, **_told(failure, orders))),
            )
    return [*played]


def _there(world: World, failure: Failure, base: str) -> Systems:
    return world.systems_at(base, deadline=failure.deadline)


def _told(failure: Failure, base: str) -> dict[str, Any]:
    return {"accounts": 1, "remote": Remote(base, failure.reached)}


async def _rested(world: World, playing: Awaitable[Probe]) -> Probe:
    """The probe once nothing more comes of it while the remote fails."""
    probe = await playing
    # What is not known is looked up, of which there is an account of its own.
    probe.accounts += probe.expected is Code.OUTCOME_UNKNOWN
    await probes.rest(world, probe)
    return probe
