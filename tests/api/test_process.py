"""The API on real sockets: endless bodies end at once, and nothing that is sent can forge a line of its log."""

import json
import re
import select
import time
from collections.abc import Iterator
from contextlib import suppress
from http.client import HTTPConnection

import pytest

from tests.api.api_process import ApiProcess
from tests.service import PATIENCE

GIB = 1 << 30
# What the kernel buffers on a loopback connection, with room to spare.
BUFFERED = 64 << 20
CHUNK = b"10000\r\n" + b" " * 65_536 + b"\r\n"


def exchange(process: ApiProcess, head: str, body: Iterator[bytes]) -> tuple[int, bytes]:
    """(how many bytes of `body` were taken, the whole answer), sending until the connection is closed."""
    sent, answer = 0, bytearray()
    with process.connect() as connection:
        connection.sendall(head.encode("latin-1"))
        connection.setblocking(False)
        pending, give_up = b"", time.monotonic() + PATIENCE
        while time.monotonic() < give_up:
            readable, writable, _ = select.select([connection], [connection] if body else [], [], 1)
            try:
                if readable:
                    received = connection.recv(65_536)
                    if not received:
                        return sent, bytes(answer)
                    answer += received
                if writable:
                    pending = pending or next(body, b"")
                    taken = connection.send(pending)
                    sent, pending = sent + taken, pending[taken:]
                    assert sent < BUFFERED, "the body is read"
            except (ConnectionResetError, BrokenPipeError):
                # What had arrived before the connection was closed is there all the same.
                with suppress(OSError):
                    while received := connection.recv(65_536):
                        answer += received
                return sent, bytes(answer)
    pytest.fail(f"the connection was not closed after {sent} bytes")


def forever(piece: bytes) -> Iterator[bytes]:
    return iter(lambda: piece, None)


LENGTHS = {"with Content-Length": f"Content-Length: {GIB}\r\n", "chunked": "Transfer-Encoding: chunked\r\n"}
TARGETS = {
    "an agent's call": ("POST /v1/tool-calls", "run", 413),
    "a new run": ("POST /v1/runs", "service", 413),
    "nobody's call": ("POST /v1/tool-calls", None, 401),
    "an approver's decision": ("POST /v1/approvals/apr_x/decision", "approver", 413),
    "a form": ("POST /signin", None, 415),
    "no such path": ("PUT /nothing", None, 404),
    "a body with GET": ("GET /healthz", None, 200),
}


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("target", TARGETS)
def test_an_endless_body_is_answered_and_not_read(process: ApiProcess, target: str, length: str) -> None:
    line, kind, status = TARGETS[target]
    bearer = f"Authorization: Bearer {process.tokens[kind]}\r\n" if kind else ""
    head = f"{line} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{bearer}{LENGTHS[length]}\r\n"
    _, answer = exchange(process, head, forever(CHUNK if length == "chunked" else b" " * 65_536))
    assert answer.startswith(b"HTTP/1.1 %d " % status)
    assert re.search(rb"\r\nconnection: close\r\n", answer, re.IGNORECASE)


def test_a_body_that_is_announced_first_is_not_asked_for(process: ApiProcess) -> None:
    head = (
        f"POST /v1/tool-calls HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\nContent-Length: {GIB}\r\n"
        f"Authorization: Bearer {process.tokens['run']}\r\nExpect: 100-continue\r\n\r\n"
    )
    sent, answer = exchange(process, head, iter(()))
    assert (sent, answer[:12]) == (0, b"HTTP/1.1 413")


def test_a_connection_is_kept_after_a_refusal_of_a_short_body(process: ApiProcess) -> None:
    connection = HTTPConnection("127.0.0.1", process.port, timeout=PATIENCE)
    connection.connect()
    kept = connection.sock
    for _ in range(3):
        connection.request("POST", "/v1/tool-calls", b"{}")
        answer = connection.getresponse()
        assert (answer.status, answer.getheader("connection")) == (401, None)
        answer.read()
    assert connection.sock is kept
    connection.close()


HOSTILE = [
    b"GET /%1b[2J%0d%0aINFO%20fake HTTP/1.1\r\nHost: a\r\n\r\n",
    b"GET /v1/tool-calls/%0a%7b%22event%22:%22fake%22%7d HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer %s\r\n\r\n",
    b"GET /v1/tools HTTP/1.1\r\nHost: a\r\nUser-Agent: \x1b[2J\x1b]0;fake\x07\r\nAuthorization: Bearer \x9b2J\r\n\r\n",
    b"GET /v1/tools HTTP/1.1\r\nHost: a\r\ntraceparent: \x1b[31m\r\nX-Request-Id: a\x0bINFO fake\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\nINFO fake\r\n\r\n",
    b"GET /\x1b[2J\x85INFO fake HTTP/1.1\r\nHost: a\r\n\r\n",
    b"\x1b[2J\r\nINFO fake\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"BREW /fake HTTP/9.9\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nINFO fake\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    b"POST /v1/runs HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nINFO fake",
    b"GET http://fake/\x1b HTTP/1.1\r\nHost: \x1b[2J\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n",
]


def test_no_request_forges_a_line_of_the_log(process: ApiProcess) -> None:
    for request in HOSTILE:
        with process.connect() as connection:
            connection.sendall(request.replace(b"%s", process.tokens["run"].encode()))
            answer = connection.recv(65_536)
            assert not answer or answer.startswith(b"HTTP/1.1 4")
            assert b"Traceback" not in answer
            assert b"fake" not in answer
    lines = process.log.read_bytes().splitlines()
    assert lines
    for line in lines:
        record = json.loads(line)
        assert isinstance(record, dict)
        assert {"event", "level", "timestamp"} <= record.keys()
        assert b"fake" not in line
        assert re.search(rb"[\x00-\x1f\x7f-\xff]", line) is None
