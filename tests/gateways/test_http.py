"""One exchange, against servers that behave as badly as a network can."""

import asyncio
import gzip
import socket
import struct
import time
from collections.abc import Awaitable, Callable, Iterator

import httpx
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from gateways import http
from gateways.http import Answered, NotAnswered, Remote, at_most
from tests import loopback
from tests.gateways.holding import held
from tests.service import PATIENCE

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
Serve = Callable[[Handler], Awaitable[str]]
SECRET = "Bearer sk_very_secret"


def remote(client: httpx.AsyncClient, base: str, *, deadline: float = 5.0, propagate: bool = False) -> Remote:
    return Remote(
        client,
        loopback.egress(base),
        system="payments",
        base=base,
        credentials=held(SECRET),
        authorize=str,
        deadline_seconds=deadline,
        propagate_trace=propagate,
    )


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of a request and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    return head


def response(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", "Content-Type: application/json", *headers]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answering(*responses: bytes) -> Handler:
    """Sends the responses to the requests of a connection in turn, then closes it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in responses:
            await read_request(reader)
            writer.write(each)
            await writer.drain()

    return handle


async def drop_at_once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def drop_after_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)


async def reset_after_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n")
    while True:
        writer.write(b" ")
        await writer.drain()
        await asyncio.sleep(0.02)


async def endless_body(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    while True:
        writer.write(b"10000\r\n" + b" " * 65536 + b"\r\n")
        await writer.drain()


UNANSWERED = {
    "dropped at once": (drop_at_once, "bytes_sent", {"no_response", "reset"}),
    "dropped after reading": (drop_after_reading, "bytes_sent", {"no_response"}),
    "reset": (reset_after_reading, "bytes_sent", {"reset"}),
    "silent": (never_answer, "bytes_sent", {"timeout"}),
    "slow drip": (drip, "response_received", {"timeout"}),
    "half a head": (answering(b"HTTP/1.1 200 OK\r\nContent-"), "bytes_sent", {"no_response"}),
    "half a body": (answering(response(b'{"a": 1}')[:-3]), "response_received", {"truncated"}),
    "not HTTP": (answering(b"\x00\x01 hello\r\n\r\n"), "bytes_sent", {"no_response"}),
    "redirect to nonsense": (
        answering(response(b"", "307 Temporary Redirect", "Location: http://a:b/")),
        "response_received",
        {"truncated"},
    ),
}


@pytest.mark.parametrize("case", UNANSWERED)
async def test_what_was_sent_is_told_honestly_when_no_answer_comes(
    serve: Serve, client: httpx.AsyncClient, case: str
) -> None:
    handler, reached, problems = UNANSWERED[case]
    gateway = remote(client, await serve(handler), deadline=0.3)
    started = time.monotonic()
    answer = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert isinstance(answer, NotAnswered)
    assert answer.exchange.reached == reached
    assert answer.exchange.problem in problems
    assert not answer.nothing_sent
    assert time.monotonic() - started < 2


async def test_a_tool_may_have_less_time_than_its_system(serve: Serve, client: httpx.AsyncClient) -> None:
    gateway, started = remote(client, await serve(never_answer), deadline=PATIENCE), time.monotonic()
    with at_most(0.3):
        answer = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert answer.exchange.problem == "timeout"
    assert time.monotonic() - started < PATIENCE / 2


async def test_nothing_was_sent_when_nobody_listens(client: httpx.AsyncClient) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        gateway = remote(client, f"http://127.0.0.1:{taken.getsockname()[1]}")
        answer = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert isinstance(answer, NotAnswered)
    assert answer.nothing_sent
    assert (answer.exchange.reached, answer.exchange.problem) == ("nothing_sent", "connect_failed")


async def test_nothing_was_sent_when_the_handshake_does_not_end(serve: Serve, client: httpx.AsyncClient) -> None:
    base = (await serve(never_answer)).replace("http:", "https:")
    answer = await remote(client, base, deadline=0.3).exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert isinstance(answer, NotAnswered)
    assert answer.nothing_sent
    assert (answer.exchange.reached, answer.exchange.problem) == ("connected", "timeout")


async def test_no_connection_is_made_to_an_origin_that_is_not_allowed(serve: Serve, client: httpx.AsyncClient) -> None:
    connections = 0

    async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1

    gateway = Remote(
        client,
        loopback.egress("https://api.example.com"),
        system="payments",
        base=await serve(count),
        credentials=held(SECRET),
        authorize=str,
    )
    answer = await gateway.exchange("GET", "/v1/refunds")
    assert isinstance(answer, NotAnswered)
    assert answer.nothing_sent
    assert answer.exchange.problem == "egress_denied"
    assert connections == 0


UNREADABLE = {
    "duplicate keys": response(b'{"amount": 1, "amount": 2}'),
    "nested duplicate keys": response(b'{"a": [{"amount": 1, "amount": 2}]}'),
    "NaN": response(b'{"amount": NaN}'),
    "Infinity": response(b'{"amount": -Infinity}'),
    "HTML": response(b"<html><form></form></html>"),
    "empty": response(b""),
    "not UTF-8": response(b'{"a": "\xff"}'),
    "UTF-16": response('{"a": 1}'.encode("utf-16")),
    "two values": response(b"{} {}"),
    "deep": response(b"[" * 100_000),
    "a number of too many digits": response(b"9" * 10_000),
    "compressed": response(gzip.compress(b'{"amount": 1}'), "200 OK", "Content-Encoding: gzip"),
}


@pytest.mark.parametrize("case", UNREADABLE)
async def test_a_body_that_is_not_strict_json_is_not_guessed_at(
    serve: Serve, client: httpx.AsyncClient, case: str
) -> None:
    answer = await remote(client, await serve(answering(UNREADABLE[case]))).exchange("GET", "/v1/refunds")
    assert isinstance(answer, Answered)
    assert (answer.status, answer.json) == (200, None)
    assert (answer.exchange.reached, answer.exchange.problem) == ("response_received", "unreadable")


BIG = response(b'"' + b" " * (2 * http.MAX_BODY_BYTES) + b'"')


@pytest.mark.parametrize("handler", [endless_body, answering(BIG)], ids=["endless", "big"])
async def test_a_body_is_not_read_beyond_its_cap(serve: Serve, client: httpx.AsyncClient, handler: Handler) -> None:
    answer = await remote(client, await serve(handler)).exchange("GET", "/v1/refunds")
    assert isinstance(answer, Answered)
    assert (answer.json, answer.exchange.problem) == (None, "too_large")


async def test_a_redirect_is_an_answer_and_is_not_followed(serve: Serve, client: httpx.AsyncClient) -> None:
    requests: list[bytes] = []

    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(response(b"", "307 Temporary Redirect", "Location: /v1/refunds"))

    answer = await remote(client, await serve(redirect)).exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert isinstance(answer, Answered)
    assert answer.status == 307
    assert len(requests) == 1


async def test_a_kept_connection_that_dies_while_used_may_have_carried_the_request(
    serve: Serve, client: httpx.AsyncClient
) -> None:
    connections = 0

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await read_request(reader)
        writer.write(response(b"{}"))
        await reader.readexactly(1)

    gateway = remote(client, await serve(once))
    assert isinstance(await gateway.exchange("GET", "/v1/refunds"), Answered)
    second = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
    assert isinstance(second, NotAnswered)
    assert second.exchange.reached == "bytes_sent"
    assert connections == 1


async def test_a_kept_connection_that_was_closed_is_replaced(serve: Serve, client: httpx.AsyncClient) -> None:
    closed = asyncio.Event()

    async def once(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(response(b"{}"))
        writer.close()
        await writer.wait_closed()
        closed.set()

    gateway = remote(client, await serve(once))
    for _ in range(3):
        closed.clear()
        assert isinstance(await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"}), Answered)
        await closed.wait()


async def test_connections_are_kept_and_cookies_are_not(serve: Serve, client: httpx.AsyncClient) -> None:
    requests: list[bytes] = []

    async def keep(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response(b"{}", "200 OK", "Set-Cookie: session=1; Path=/"))
        requests.append(await read_request(reader))
        writer.write(response(b"{}"))

    gateway = remote(client, await serve(keep))
    for _ in range(2):
        assert isinstance(await gateway.exchange("GET", "/v1/refunds"), Answered)
    assert len(requests) == 2
    assert all(b"cookie:" not in each.lower() for each in requests)


@pytest.mark.parametrize(
    ("header", "seconds"), [("7", 7), ("-1", None), ("1.5", None), ("Wed, 21 Oct 2026 07:28:00 GMT", None)]
)
async def test_retry_after_is_taken_when_it_is_whole_seconds(
    serve: Serve, client: httpx.AsyncClient, header: str, seconds: int | None
) -> None:
    base = await serve(answering(response(b"{}", "429 Too Many Requests", f"Retry-After: {header}")))
    answer = await remote(client, base).exchange("GET", "/v1/refunds")
    assert isinstance(answer, Answered)
    assert answer.retry_after_seconds == seconds


async def test_the_request_is_what_was_asked_for(serve: Serve, client: httpx.AsyncClient) -> None:
    requests: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response(b'{"a": 1}'))

    gateway = remote(client, (await serve(record)) + "/prefix/")
    answer = await gateway.exchange(
        "POST",
        "/v1/charges/{id}",
        path={"id": "ch_1"},
        query={"limit": "1"},
        form={"a[b]": "c&d"},
        idempotency_key="k1",
    )
    assert isinstance(answer, Answered)
    assert answer.json == {"a": 1}
    head, _, body = requests[0].partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "post /prefix/v1/charges/ch_1?limit=1 http/1.1"
    assert "idempotency-key: k1" in lines
    assert f"authorization: {SECRET.lower()}" in lines
    assert "accept-encoding: identity" in lines
    assert body == b"a%5Bb%5D=c%26d"


@pytest.mark.parametrize("value", ["..", "a/b", "", "a?b", "a b", "ord_\uff11", "x" * 256])
async def test_a_path_parameter_is_a_plain_identifier(client: httpx.AsyncClient, value: str) -> None:
    with pytest.raises(ValueError, match="plain identifier"):
        await remote(client, "http://127.0.0.1:9").exchange("GET", "/v1/charges/{id}", path={"id": value})


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr("gateways.http._tracer", provider.get_tracer("test"))
    yield exporter
    provider.shutdown()


async def test_the_span_of_an_exchange_tells_where_and_how_but_not_what(
    serve: Serve, client: httpx.AsyncClient, spans: InMemorySpanExporter
) -> None:
    base = await serve(answering(response(b"{}", "402 Payment Required")))
    await remote(client, base).exchange("GET", "/v1/charges/{id}", path={"id": "ch_private"}, query={"q": "private"})
    (span,) = spans.get_finished_spans()
    assert span.name == "GET /v1/charges/{id}"
    assert span.kind is SpanKind.CLIENT
    assert dict(span.attributes or {}) == {
        "http.request.method": "GET",
        "url.template": "/v1/charges/{id}",
        "server.address": "127.0.0.1",
        "server.port": int(base.rsplit(":", 1)[1]),
        "http.response.status_code": 402,
        "error.type": "402",
    }
    assert span.status.status_code is StatusCode.ERROR
    assert span.status.description is None


async def test_the_span_of_a_lost_exchange_has_our_word_and_no_exception(
    serve: Serve, client: httpx.AsyncClient, spans: InMemorySpanExporter
) -> None:
    await remote(client, await serve(drop_after_reading)).exchange("POST", "/v1/refunds", form={"amount": "1"})
    (span,) = spans.get_finished_spans()
    assert (span.attributes or {})["error.type"] == "no_response"
    assert not span.events
    assert SECRET not in span.to_json()


@pytest.mark.parametrize("propagate", [True, False])
async def test_the_trace_context_goes_only_to_systems_of_our_own(
    serve: Serve, client: httpx.AsyncClient, spans: InMemorySpanExporter, propagate: bool
) -> None:
    requests: list[bytes] = []

    async def record(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await read_request(reader))
        writer.write(response(b"{}"))

    await remote(client, await serve(record), propagate=propagate).exchange("GET", "/v1/refunds")
    assert (b"traceparent:" in requests[0].lower()) is propagate
