"""The API process; with `eager_start` it hosts a workflow worker as well, so that free calls need no other hop."""

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from socket import socket
from typing import Any

import uvicorn
from fastapi import FastAPI

from api.app import Lifespan, create_app
from api.context import Context
from api.diagnosing import EdgeDiagnostics
from api.limits import Limits, Pace
from api.room import Room
from api.waiting import Waiters
from ledger.signing import DecisionSigner
from runtime.assembly import activity_services, core, say_policy
from runtime.codec import payload_codec
from runtime.logs import start_logging
from runtime.measuring import Metrics, measuring, start_metrics
from runtime.openid import openid_provider
from runtime.settings import Settings
from runtime.telemetry import start_tracing
from runtime.webhooks import webhook_readers
from runtime.workers import workflow_worker

_CONNECTIONS = 20
# Less than uvicorn gives connections to end.
_ANSWERED_WITHIN = 5.0


def run_api(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; what was begun is finished first."""
    start_logging(settings.log_level)
    stop_tracing, measured = start_tracing("api", settings.traces_file), start_metrics("api", settings)
    try:
        _Server(create_app(lifespan_of(settings, measured)), settings).run()
    finally:
        measured.stop()
        stop_tracing()


class _Server(uvicorn.Server):
    """When it is asked to stop, whoever waits for a call is answered before connections are cut."""

    def __init__(self, app: FastAPI, settings: Settings) -> None:
        super().__init__(uvicorn.Config(app, **server_options(settings)))
        self._app = app

    async def shutdown(self, sockets: list[socket] | None = None) -> None:
        context: Context = self._app.state.context
        context.waiters.stop(_ANSWERED_WITHIN)
        await super().shutdown(sockets)


def server_options(settings: Settings) -> dict[str, Any]:
    """How uvicorn serves the application. No access log: paths and headers are the caller's text."""
    proxies = settings.proxies()
    return {
        "host": settings.api_host,
        "port": settings.api_port,
        "log_config": None,
        "access_log": False,
        "server_header": False,
        # Left to itself uvicorn believes this machine, and whatever FORWARDED_ALLOW_IPS names.
        "proxy_headers": bool(proxies),
        "forwarded_allow_ips": proxies,
        "loop": "uvloop",
        "http": "httptools",
        "timeout_graceful_shutdown": 15,
    }


def limits_of(settings: Settings) -> Limits:
    return Limits(
        Pace(settings.failed_authentications_per_minute, settings.failed_authentications_per_hour),
        Pace(settings.invalid_calls_per_minute, settings.invalid_calls_per_hour),
        Pace(settings.address_invalid_calls_per_minute, settings.address_invalid_calls_per_hour),
    )


def lifespan_of(settings: Settings, measured: Metrics | None = None) -> Lifespan:
    """What the application works with while it runs; `measured` where the process has metrics."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            built = await stack.enter_async_context(core(settings, connections=_CONNECTIONS))
            if measured is not None:
                await stack.enter_async_context(measuring(measured, built))
            waiters = Waiters(built.ledger.calls)
            edge_diagnostics = EdgeDiagnostics(
                built.ledger.diagnostics, tenant=settings.tenant, per_hour=settings.edge_diagnostics_per_hour
            )
            stack.push_async_callback(edge_diagnostics.drain)
            oidc = await stack.enter_async_context(openid_provider(settings, built.ledger.streams))
            app.state.context = Context(
                ledger=built.ledger,
                catalog=built.catalog,
                signer=DecisionSigner(built.master),
                temporal=built.temporal,
                waiters=waiters,
                task_queue=settings.task_queue,
                eager_start=settings.eager_start,
                public_url=settings.public_url.rstrip("/"),
                edge_diagnostics=edge_diagnostics,
                codec=payload_codec(built.master),
                policies=built.policies,
                tenant=settings.tenant,
                temporal_ui_url=settings.temporal_ui_url,
                namespace=built.temporal.namespace,
                trace_url=settings.trace_url,
                limits=limits_of(settings),
                room=Room(settings.calls_at_once),
                webhooks=webhook_readers(settings),
                oidc=oidc,
                metrics_open=settings.metrics_access == "anyone",
                mcp_hosts=settings.mcp_hosts(),
                mcp_origins=settings.mcp_origins(),
            )
            if settings.eager_start:
                services = await stack.enter_async_context(
                    activity_services(built, inline=True, committed=waiters.moved)
                )
                await say_policy(built, by="api")
                await stack.enter_async_context(workflow_worker(built.temporal, services, build_id=settings.build_id))
            yield

    return lifespan
