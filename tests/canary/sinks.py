"""Every place where a secret could come out, read as raw as it can be."""

import io
import logging
from collections import defaultdict
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import asyncpg
import httpx
import structlog
from opentelemetry import metrics, trace
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from temporalio.client import Client
from temporalio.contrib.opentelemetry import ReplaySafeTracerProvider

from runtime.logs import start_logging
from runtime.telemetry import tracer_provider
from tests.canary.planted import Found, Search

Sink = Literal["POST", "GET", "logs", "spans", "metrics", "histories", "database", "pages", "accounts"]
SINKS: tuple[Sink, ...] = get_args(Sink)


class Content(NamedTuple):
    """Something to search. `besides`: secrets that may stand there, by design."""

    label: str
    content: bytes
    besides: frozenset[str] = frozenset()


class Leak(NamedTuple):
    """A secret that came out."""

    sink: Sink
    label: str
    found: Found

    def __str__(self) -> str:
        return f"{self.sink} ({self.label}): {self.found.secret}, {self.found.form}"


def leaks(search: Search, sink: Sink, contents: list[Content]) -> list[Leak]:
    """What is found. Everything is looked through at once, and piece by piece only where there is something."""
    alike: defaultdict[frozenset[str], list[Content]] = defaultdict(list)
    for each in contents:
        alike[each.besides].append(each)
    return [
        Leak(sink, each.label, found)
        for besides, those in alike.items()
        if search.of(b"\0".join(each.content for each in those), besides=besides)
        for each in those
        for found in search.of(each.content, besides=besides)
    ]


def of_response(label: str, response: httpx.Response) -> Content:
    """Status line, headers and body."""
    head = b"\r\n".join(name + b": " + value for name, value in response.headers.raw)
    return Content(label, f"{response.status_code} {response.reason_phrase}\r\n".encode() + head + response.content)


class Logs:
    """What the process writes to its log, at DEBUG, and what it prints besides; and the logs of the servers."""

    def __init__(self, stream: io.StringIO, files: list[Path]) -> None:
        self._stream = stream
        self._files = {file: file.stat().st_size for file in files}

    def take(self) -> list[Content]:
        written = self._stream.getvalue()
        self._stream.seek(0)
        self._stream.truncate()
        return [Content("log", written.encode()), *self._new_lines()]

    def _new_lines(self) -> Iterator[Content]:
        for file, offset in self._files.items():
            with file.open("rb") as opened:
                opened.seek(offset)
                content = opened.read()
            self._files[file] = offset + len(content)
            yield Content(file.name, content)


@contextmanager
def logging_to_memory(files: list[Path]) -> Generator[Logs]:
    """The product's own logging, at DEBUG, into memory; afterwards everything is as it was."""
    root = logging.getLogger()
    before, handlers, configured = root.level, root.handlers[:], structlog.get_config()
    levels = {name: logging.getLogger(name).level for name in logging.root.manager.loggerDict}
    root.handlers.clear()
    start_logging("DEBUG")
    # Loggers that were used stay as they are configured now, unless they are told to look again.
    structlog.configure(cache_logger_on_first_use=False)
    (handler,) = [each for each in root.handlers if isinstance(each, logging.StreamHandler)]
    stream = io.StringIO()
    handler.setStream(stream)
    try:
        yield Logs(stream, files)
    finally:
        logging.captureWarnings(False)
        root.handlers[:] = handlers
        root.setLevel(before)
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
        structlog.configure(**configured)


class Spans:
    """What is exported of traces."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        if not isinstance(trace.get_tracer_provider(), ReplaySafeTracerProvider):
            trace.set_tracer_provider(tracer_provider())
        provider: Any = trace.get_tracer_provider()
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))

    def take(self) -> list[Content]:
        spans = self._exporter.get_finished_spans()
        self._exporter.clear()
        return [Content(f"span {span.name[:60]}", _of_span(span)) for span in spans]

    def close(self) -> None:
        self._exporter.shutdown()


def _of_span(span: ReadableSpan) -> bytes:
    states = [span.context.trace_state if span.context else None, *(link.context.trace_state for link in span.links)]
    return "\n".join([span.to_json(), *map(repr, states)]).encode()


class Metrics:
    """What is measured. A process has one meter provider, the first one; the answer of /metrics is read in any case."""

    def __init__(self) -> None:
        self._reader = InMemoryMetricReader()
        if not isinstance(metrics.get_meter_provider(), MeterProvider):
            metrics.set_meter_provider(MeterProvider([self._reader, PrometheusMetricReader()]))

    def take(self) -> list[Content]:
        data = self._reader.get_metrics_data()
        return [] if data is None else [Content("measured", data.to_json().encode())]


class Database:
    """Every row of every table that is new or was changed since the last look, as a superuser sees it."""

    def __init__(self, pool: "asyncpg.Pool[asyncpg.Record]") -> None:
        self._pool = pool
        self._seen: set[tuple[str, str]] = set()

    async def take(self) -> list[Content]:
        tables = await self._pool.fetch(
            "SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables "
            "WHERE schemaname NOT IN ('pg_catalog', 'information_schema')"
        )
        return [content for (table,) in tables for content in await self._rows(table)]

    async def accounts(self, request_ids: Iterable[str]) -> int:
        """How many diagnostics there are of these requests."""
        query = "SELECT count(*) FROM diagnostics WHERE request_id = ANY ($1::text[])"
        return int(await self._pool.fetchval(query, list(request_ids)))

    async def connected(self, role: str) -> int:
        """How many sessions there are of roles like this one."""
        query = "SELECT count(*) FROM pg_stat_activity WHERE usename LIKE $1"
        return int(await self._pool.fetchval(query, role))

    async def knows(self, request_id: str) -> bool:
        """Whether there is a call of this id."""
        query = "SELECT EXISTS (SELECT FROM calls WHERE request_id = $1)"
        return bool(await self._pool.fetchval(query, request_id))

    async def _rows(self, table: str) -> list[Content]:
        found: list[Content] = []
        for row in await self._pool.fetch(f"SELECT t::text AS written, t.* FROM {table} t"):
            key = (table, row["written"])
            if key not in self._seen:
                self._seen.add(key)
                # As text, wherein bytes are hex; and each column by itself, bytes as they are.
                found.append(Content(f"{table}, a row", row["written"].encode()))
                found += [Content(f"{table}.{name}", _of_value(value)) for name, value in row.items()]
        return found


def _of_value(value: object) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


async def histories(undecoded: Client, workflow_ids: list[str]) -> list[Content]:
    """The bytes of each event and of the description, as Temporal keeps them: read by a client that has no key."""
    found: list[Content] = []
    for workflow_id in workflow_ids:
        handle = undecoded.get_workflow_handle(workflow_id)
        description = await handle.describe()
        found.append(Content("description", description.raw_description.SerializeToString()))
        async for event in handle.fetch_history_events():
            found.append(Content(f"event {event.event_id}", event.SerializeToString()))
    return found


class Words(NamedTuple):
    """A place on a page where somebody's own words are shown: such elements within one of that class or name."""

    tag: str
    within: str


AGENTS_PLACE = Words("blockquote", "untrusted")
PERSONS_PLACE = Words("blockquote", "outcome")


class _Parts(HTMLParser):
    """Takes a page apart: what stands in the places of others' words, and everything else, markup included."""

    _VOID = frozenset({"meta", "link", "img", "input", "br", "hr"})

    def __init__(self, places: tuple[Words, ...]) -> None:
        super().__init__(convert_charrefs=False)
        self._places = places
        self._path: list[tuple[str, set[str]]] = []
        self.rest: list[str] = []
        self.words: dict[Words, list[str]] = {place: [] for place in places}

    def place(self) -> Words | None:
        tags = {tag for tag, _ in self._path}
        around = tags.union(*(classes for _, classes in self._path))
        return next((each for each in self._places if each.tag in tags and each.within in around), None)

    def _keep(self, text: str) -> None:
        place = self.place()
        (self.rest if place is None else self.words[place]).append(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._keep(self.get_starttag_text() or "")
        if tag not in self._VOID:
            self._path.append((tag, set((dict(attrs).get("class") or "").split())))

    def handle_endtag(self, tag: str) -> None:
        while self._path and self._path.pop()[0] != tag:
            pass

    def handle_data(self, data: str) -> None:
        self._keep(data)

    def handle_entityref(self, name: str) -> None:
        self._keep(f"&{name};")

    def handle_charref(self, name: str) -> None:
        self._keep(f"&#{name};")

    def handle_comment(self, data: str) -> None:
        self._keep(data)


def apart(page: str, *places: Words) -> tuple[str, dict[Words, str]]:
    """(a page without the words of others, those words by their place)."""
    parts = _Parts(places)
    parts.feed(page)
    parts.close()
    return "".join(parts.rest), {place: "".join(words) for place, words in parts.words.items()}
