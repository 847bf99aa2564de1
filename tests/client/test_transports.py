"""Both ways of making requests, over real sockets: how long they may take, and what of a failure is told."""

import asyncio
import gzip
import socket
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

import pytest
from counterseal_client import (
    AsyncCounterseal,
    ClientError,
    Counterseal,
    Misuse,
    Patience,
    Tools,
    UnexpectedAnswer,
    Unreachable,
)

PATIENCE = Patience(timeout=0.5, tries=1)
TOKEN = "a-secret-run-token"
EMPTY = b'{"tools": []}'

Serve = Callable[[socket.socket], None]
Ask = Callable[[str, Patience], Tools]


def blocking(api: str, patience: Patience) -> Tools:
    with Counterseal(api, patience=patience) as client:
        return client.run(TOKEN).tools()


def asynchronous(api: str, patience: Patience) -> Tools:
    async def asking() -> Tools:
        async with AsyncCounterseal(api, patience=patience) as client:
            return await client.run(TOKEN).tools()

    return asyncio.run(asking())


both = pytest.mark.parametrize("ask", [blocking, asynchronous])


@contextmanager
def served(serve: Serve) -> Generator[tuple[str, list[bytes]]]:
    """(URL of a server that reads a request and then does `serve`, the requests it got)."""
    got: list[bytes] = []
    listening = socket.create_server(("127.0.0.1", 0))

    def accept() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with connection:
                got.append(connection.recv(65536))
                try:
                    serve(connection)
                except OSError:
                    continue

    thread = threading.Thread(target=accept)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", got
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(10)


def answer(body: bytes, head: str = "200 OK", length: int | None = None) -> bytes:
    size = len(body) if length is None else length
    return f"HTTP/1.1 {head}\r\nContent-Length: {size}\r\nConnection: close\r\n\r\n".encode() + body


def failure(kind: type[ClientError], ask: Ask, api: str, patience: Patience = PATIENCE) -> str:
    """What is said of it."""
    with pytest.raises(kind) as said:
        ask(api, patience)
    return str(said.value)


@both
def test_it_asks_with_its_token_and_no_proxy(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with served(lambda peer: peer.sendall(answer(EMPTY))) as (api, got):
        assert ask(f"{api}/under/", PATIENCE).refusal is None
    assert got[0].startswith(b"GET /under/v1/tools HTTP/1.1\r\n")
    assert f"\r\nAuthorization: Bearer {TOKEN}\r\n".encode() in got[0]


@both
def test_nobody_there(ask: Ask) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(Unreachable, match="nothing was sent") as said:
        ask(f"http://127.0.0.1:{port}", PATIENCE)
    assert (said.value.sent, said.value.__cause__) == (False, None)


@both
def test_an_exchange_ends_in_time_however_it_trickles(ask: Ask) -> None:
    def trickle(peer: socket.socket) -> None:
        peer.sendall(answer(b"", length=1000))
        for _ in range(1000):
            peer.sendall(b" ")
            time.sleep(0.02)

    with served(trickle) as (api, _):
        began = time.monotonic()
        with pytest.raises(Unreachable, match="may have arrived"):
            ask(api, PATIENCE)
        assert time.monotonic() - began < 5


@both
def test_an_answer_that_breaks_off_is_asked_for_again(ask: Ask) -> None:
    answers = iter([answer(EMPTY, length=100), answer(EMPTY)])
    with served(lambda peer: peer.sendall(next(answers))) as (api, got):
        assert ask(api, Patience(tries=2)).refusal is None
    assert len(got) == 2


@both
def test_a_redirect_is_not_followed(ask: Ask) -> None:
    with served(lambda peer: peer.sendall(answer(b"", "307 Away\r\nLocation: /elsewhere"))) as (api, got):
        assert failure(UnexpectedAnswer, ask, api).startswith("HTTP 307")
    assert len(got) == 1


@both
def test_no_more_is_read_than_any_answer_has(ask: Ask) -> None:
    with served(lambda peer: peer.sendall(answer(b" " * (5 * 2**20)))) as (api, _):
        assert "longer" in failure(UnexpectedAnswer, ask, api, Patience(timeout=30))


@both
def test_what_is_compressed_is_not_unpacked(ask: Ask) -> None:
    body = gzip.compress(EMPTY)
    head = f"content-encoding: gzip\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    with served(lambda connection: connection.sendall(b"HTTP/1.1 200 OK\r\n" + head + body)) as (url, got):
        with pytest.raises(UnexpectedAnswer):
            ask(url, PATIENCE)
        assert b"accept-encoding: identity\r\n" in got[0].lower()


@both
def test_no_error_tells_the_token_or_the_address(ask: Ask) -> None:
    with served(lambda peer: peer.sendall(b"nonsense a-secret\r\n\r\n")) as (api, _):
        said = failure(Unreachable, ask, api)
    assert not any(each in said for each in ("secret", "127.0.0.1", "http"))


@pytest.mark.parametrize("token", ["", "a b", "a\r\nX: y", "é"])
def test_a_token_that_is_none_is_not_sent(token: str) -> None:
    with Counterseal("http://127.0.0.1:1") as client, pytest.raises(Misuse):
        client.run(token).tools()


def test_nothing_shows_a_token() -> None:
    with Counterseal("http://127.0.0.1:1", TOKEN) as client:
        assert TOKEN not in repr(client) + repr(client.run(TOKEN)) + repr(vars(client.run(TOKEN)))
