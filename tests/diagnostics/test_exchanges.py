"""The account of one exchange: how far it truly went, and neither credential nor body."""

import hashlib
import hmac
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateways.accounts import Course
from gateways.client import new_client
from gateways.http import Answer, Remote
from gateways.trail import Trail, current, followed
from schemas.diagnostics import ExchangeAccount
from tests import loopback
from tests.diagnostics.remotes import (
    HTML,
    LOGIN_PAGE,
    MALFORMED,
    Handler,
    answering,
    echo_authorization,
    free_port,
    never_answer,
    reset_after_reading,
    response,
    serving,
    untrusted_tls,
)
from tests.gateways.holding import held

TOKEN = "sk_very_secret_value"
FORM = {"amount": "4999"}
SENT = b"amount=4999"
CONNECTED = ["credential_selected", "connection_started", "connected"]
SENDING = [*CONNECTED, "bytes_sent", "request_sent"]


def fingerprint(content: bytes) -> str:
    return hmac.new(b"key of the tests", content, hashlib.sha256).hexdigest()


@pytest.fixture
async def client() -> AsyncIterator[httpx.AsyncClient]:
    async with new_client() as made:
        yield made


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


def remote(client: httpx.AsyncClient, base: str, *, deadline: float = 5.0, allowed: str | None = None) -> Remote:
    return Remote(
        client,
        loopback.egress(allowed or base),
        system="payments",
        base=base,
        credentials=held(TOKEN, "settings:example_key"),
        deadline_seconds=deadline,
    )


async def told(remote: Remote) -> tuple[Answer, ExchangeAccount]:
    with followed(Trail(fingerprint)) as trail, trail.during("effect"):
        answer = await remote.exchange("POST", "/v1/refunds", form=FORM)
    (account,) = trail.exchanges
    return answer, account


def names(account: ExchangeAccount) -> list[str]:
    return [mark.name for mark in account.marks]


async def test_every_account_says_where_with_what_and_how_long(
    client: httpx.AsyncClient, stack: AsyncExitStack
) -> None:
    headers = [
        "Content-Type: application/json",
        "Request-Id: req_1",
        "Set-Cookie: session=1",
        "X-Customer: Ada Example",
    ]
    base = await stack.enter_async_context(serving(answering(response(b'{"a": 1}', "402 Payment Required", *headers))))
    _, account = await told(remote(client, base))
    assert (account.purpose, account.system, account.method) == ("effect", "payments", "POST")
    assert (account.destination, account.path_template) == (base, "/v1/refunds")
    assert account.credential_id == "settings:example_key"
    assert names(account) == [*SENDING, "response_received", "body_read"]
    assert [mark.after_ms for mark in account.marks] == sorted(mark.after_ms for mark in account.marks)
    assert account.upstream_status == 402
    assert account.headers == {"content-type": "application/json", "content-length": "8", "request-id": "req_1"}
    assert (account.request.size, account.request.fingerprint) == (len(SENT), fingerprint(SENT))
    assert account.response is not None
    assert (account.response.size, account.response.fingerprint) == (8, fingerprint(b'{"a": 1}'))
    assert account.exception is None


async def test_nothing_is_kept_where_nobody_follows(client: httpx.AsyncClient, stack: AsyncExitStack) -> None:
    base = await stack.enter_async_context(serving(answering(response(b"{}"))))
    assert current() is None
    await remote(client, base).exchange("GET", "/v1/refunds")
    assert current() is None


def unresolved(monkeypatch: pytest.MonkeyPatch) -> str:
    def nobody_knows(*_: Any, **__: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", nobody_knows)
    return "https://payments.example"


async def test_a_name_that_nobody_knows(client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer, account = await told(remote(client, unresolved(monkeypatch)))
    assert answer.exchange.reached == "nothing_sent"
    assert account.destination == "https://payments.example:443"
    assert names(account) == ["credential_selected", "connection_started"]
    assert (account.problem, account.cause) == ("connect_failed", "name_not_resolved")
    assert account.exception is not None
    assert account.exception.type == "httpx.ConnectError"
    assert "Name or service not known" in account.exception.text


async def test_nobody_listens(client: httpx.AsyncClient) -> None:
    _, account = await told(remote(client, f"http://127.0.0.1:{free_port()}"))
    assert names(account) == ["credential_selected", "connection_started"]
    assert account.cause == "connection_refused"


async def test_a_destination_that_is_not_allowed_is_never_connected_to(client: httpx.AsyncClient) -> None:
    _, account = await told(remote(client, "http://127.0.0.1:9", allowed="https://api.example.com"))
    assert names(account) == ["credential_selected"]
    assert (account.problem, account.exception) == ("egress_denied", None)


async def test_a_certificate_that_nobody_vouches_for(
    client: httpx.AsyncClient, stack: AsyncExitStack, tmp_path: Path
) -> None:
    base = await stack.enter_async_context(serving(never_answer, untrusted_tls(tmp_path)))
    answer, account = await told(remote(client, base))
    assert answer.exchange.reached == "connected"
    assert names(account) == [*CONNECTED, "tls_started"]
    assert account.cause == "tls"
    assert account.exception is not None
    assert "certificate verify failed" in account.exception.text


async def test_a_handshake_that_never_ends(client: httpx.AsyncClient, stack: AsyncExitStack) -> None:
    base = (await stack.enter_async_context(serving(never_answer))).replace("http:", "https:")
    _, account = await told(remote(client, base, deadline=0.3))
    assert names(account) == [*CONNECTED, "tls_started"]
    assert (account.problem, account.cause, account.upstream_status) == ("timeout", "timeout", None)


LOST: dict[str, tuple[Handler, str, str | None]] = {
    "silence": (never_answer, "timeout", "timeout"),
    "reset": (reset_after_reading, "reset", "connection_reset"),
}


@pytest.mark.parametrize("case", LOST)
async def test_an_answer_that_never_came(client: httpx.AsyncClient, stack: AsyncExitStack, case: str) -> None:
    handler, problem, cause = LOST[case]
    base = await stack.enter_async_context(serving(handler))
    _, account = await told(remote(client, base, deadline=1.0))
    assert names(account) == SENDING
    assert (account.problem, account.cause) == (problem, cause)
    assert account.response is None
    assert account.exception is not None


async def test_half_a_body_is_told_by_what_came_of_it(client: httpx.AsyncClient, stack: AsyncExitStack) -> None:
    base = await stack.enter_async_context(serving(answering(response(b'{"a": 1}')[:-3])))
    _, account = await told(remote(client, base))
    assert names(account) == [*SENDING, "response_received"]
    assert (account.problem, account.upstream_status) == ("truncated", 200)
    assert account.response is not None
    assert (account.response.size, account.response.fingerprint) == (5, fingerprint(b'{"a":'))


@pytest.mark.parametrize(
    ("handler", "content_type"), [(HTML, "text/html; charset=utf-8"), (MALFORMED, "application/json")]
)
async def test_a_body_that_is_no_answer_leaves_its_type_and_fingerprint(
    client: httpx.AsyncClient, stack: AsyncExitStack, handler: Handler, content_type: str
) -> None:
    base = await stack.enter_async_context(serving(handler))
    _, account = await told(remote(client, base))
    assert (account.problem, account.upstream_status) == ("unreadable", 200)
    assert account.headers["content-type"] == content_type
    kept = account.model_dump_json()
    assert "Ada Example" not in kept
    assert "re_1" not in kept
    if handler is HTML:
        assert account.response is not None
        assert account.response.fingerprint == fingerprint(LOGIN_PAGE)


async def test_a_credential_that_the_remote_repeats_is_taken_out(
    client: httpx.AsyncClient, stack: AsyncExitStack
) -> None:
    base = await stack.enter_async_context(serving(echo_authorization))
    _, account = await told(remote(client, base))
    assert account.headers["request-id"] == "[credential]"
    assert TOKEN not in account.model_dump_json()


async def test_a_kept_connection_is_told_as_one(client: httpx.AsyncClient, stack: AsyncExitStack) -> None:
    base = await stack.enter_async_context(serving(answering(response(b"{}"), response(b"{}"))))
    gateway = remote(client, base)
    first, second = [(await told(gateway))[1] for _ in range(2)]
    assert (first.kept_connection, second.kept_connection) == (False, True)
    assert names(second)[:3] == ["credential_selected", "connection_started", "bytes_sent"]


async def test_bytes_count_as_sent_before_the_first_one_is_written() -> None:
    """A write that breaks off in the middle may have let some of it out."""
    course = Course()
    await course("http11.send_request_headers.started", {})
    assert [mark.name for mark in course.marks()][-1] == "bytes_sent"
    assert course.reached == "bytes_sent"


async def test_our_own_exception_in_the_middle_still_leaves_how_far_it_went(
    client: httpx.AsyncClient, stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = await stack.enter_async_context(serving(answering(response(b"{}"))))

    def broken(*_: Any) -> Any:
        raise KeyError(f"a bug that quotes {TOKEN}")

    monkeypatch.setattr("schemas.strict_json.loads", broken)
    gateway = remote(client, base)
    trail = Trail(fingerprint)
    with followed(trail), pytest.raises(KeyError):
        await gateway.exchange("POST", "/v1/refunds", form=FORM)
    (account,) = trail.exchanges
    assert names(account) == [*SENDING, "response_received"]
    assert account.exception is not None
    assert "a bug that quotes [credential]" in account.exception.text
    assert TOKEN not in account.model_dump_json()


def boundaries(trail: Trail) -> list[str]:
    return [mark.name for mark in trail.boundaries()]


async def test_the_boundaries_of_an_action_are_its_own_not_those_of_its_facts(
    client: httpx.AsyncClient, stack: AsyncExitStack
) -> None:
    base = await stack.enter_async_context(serving(answering(response(b"{}"))))
    facts, dead = remote(client, base), remote(client, f"http://127.0.0.1:{free_port()}")
    with followed(Trail(fingerprint)) as trail:
        trail.mark("input_validated")
        await facts.exchange("GET", "/orders")
        assert boundaries(trail) == ["input_validated"]
        with trail.during("effect"):
            await dead.exchange("POST", "/v1/refunds", form=FORM)
    assert boundaries(trail) == ["input_validated", "credential_selected", "connection_started"]
