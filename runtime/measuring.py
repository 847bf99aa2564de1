"""Metrics: read by Prometheus, and sent over OTLP where the standard OTEL_ variables name an endpoint."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

from opentelemetry import metrics
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import Histogram, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from prometheus_client import start_http_server
from temporalio.contrib.opentelemetry import MetricsExporter
from temporalio.runtime import MetricBuffer, MetricBufferDurationFormat, Runtime, TelemetryConfig

from runtime.assembly import Core
from runtime.settings import Settings, SettingsError
from runtime.standing import Gauges

_OTLP = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT")
# Temporal's own, which come without any: from a task that is taken at once to a workflow that waits for days.
_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 3600, 86_400)
# It is drained every second.
_UPDATES = 100_000


@dataclass(frozen=True, slots=True)
class Metrics:
    """A process's metrics. `buffer` has those of the Temporal SDK's core; `stop` flushes and ends."""

    provider: MeterProvider
    buffer: MetricBuffer
    stop: Callable[[], None]


@asynccontextmanager
async def measuring(measured: Metrics, core: Core | None) -> AsyncGenerator[None]:
    """While it is entered, what the SDK's core measures is copied; with a `core` it is looked at how the ledger stands,
    too."""
    async with MetricsExporter(measured.buffer, measured.provider, meter_name="temporal"):
        if core is None:
            yield
            return
        gauges = Gauges(core.ledger.system, core.temporal, core.settings.task_queue)
        gauges.observe()
        looking = asyncio.create_task(gauges.run())
        try:
            yield
        finally:
            looking.cancel()
            with suppress(asyncio.CancelledError):
                await looking


def start_metrics(service: str, settings: Settings) -> Metrics:
    """Install the process's meter provider, before anything connects to Temporal; on a port of its own where the
    settings name one. Raises SettingsError."""
    readers: list[MetricReader] = [PrometheusMetricReader(scope_info_enabled=False)]
    if any(os.environ.get(name) for name in _OTLP) and os.environ.get("OTEL_METRICS_EXPORTER", "otlp") == "otlp":
        readers.append(PeriodicExportingMetricReader(OTLPMetricExporter()))
    provider = MeterProvider(
        readers,
        resource=Resource.create({"service.name": f"counterseal-{service}"}),
        views=[
            View(
                instrument_name="temporal_*",
                instrument_type=Histogram,
                aggregation=ExplicitBucketHistogramAggregation(_SECONDS),
            )
        ],
    )
    metrics.set_meter_provider(provider)
    buffer = MetricBuffer(_UPDATES, MetricBufferDurationFormat.SECONDS)
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(metrics=buffer)))
    closing = _serve(settings)

    def stop() -> None:
        closing()
        provider.shutdown()

    return Metrics(provider, buffer, stop)


def _serve(settings: Settings) -> Callable[[], None]:
    if not settings.metrics_port:
        return lambda: None
    try:
        server, thread = start_http_server(settings.metrics_port, settings.metrics_host)
    except OSError as problem:
        raise SettingsError(f"COUNTERSEAL_METRICS_PORT cannot be listened on: {problem.strerror}") from None

    def close() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return close
