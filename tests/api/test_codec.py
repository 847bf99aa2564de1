"""`/codec/decode`: what Temporal's UI and command line are shown of histories, to whom, and that it is recorded."""

import json
from base64 import b64decode, b64encode
from hashlib import sha256
from typing import Any

import httpx
import pytest
from temporalio.api.common.v1 import Payload

from api.codec import MAX_BYTES, MAX_PAYLOADS
from api.pages.links import origin_of
from ledger.keys import MasterKey
from ledger.streams import Streams, decodings_of
from runtime.codec import payload_codec
from schemas.events import HistoryDecoded, Recorded
from tests.api.parked import PASSWORD, TENANT, UI, Office
from tests.api.test_pages import browser, sign_in

REQUEST_ID = f"act_{'5' * 32}"
SAID = json.dumps(
    {
        "request_id": REQUEST_ID,
        "arguments": {"note": f'say "request_id":"act_{"6" * 32}"', "reason": f"act_{'7' * 32}"},
    }
).encode()
PLAIN = Payload(metadata={"encoding": b"json/plain"}, data=SAID)
PATH = "/codec/decode"
FROM_UI = {"Origin": UI, "X-Namespace": "default"}


def encoded(payload: Payload) -> dict[str, Any]:
    """As protobuf writes it in JSON."""
    metadata = {name: b64encode(value).decode() for name, value in payload.metadata.items()}
    return {"metadata": metadata, "data": b64encode(payload.data).decode()}


async def sealed(*payloads: Payload, key: bytes = bytes(32)) -> list[dict[str, Any]]:
    return [encoded(each) for each in await payload_codec(MasterKey(key)).encode(payloads)]


async def recorded(desk: Office) -> list[Recorded]:
    return [event for _, event in await desk.ledger.streams.all_of([decodings_of(TENANT)])]


async def token(desk: Office, kind: Any = "operator", tenant: str = TENANT, name: str = "sre") -> dict[str, str]:
    _, made = await desk.ledger.principals.issue(kind, tenant, name)
    return {"Authorization": f"Bearer {made}"}


async def test_an_operator_reads_in_temporals_ui_and_that_is_recorded(desk: Office) -> None:
    olga = await sign_in(desk, "olga")
    body = await sealed(PLAIN, PLAIN)
    answer = await olga.post(f"{PATH}?preserveStorageRefs=true", json={"payloads": body}, headers=FROM_UI)
    assert answer.json() == {"payloads": [encoded(PLAIN)] * 2}
    assert answer.headers["access-control-allow-origin"] == UI
    assert answer.headers["access-control-allow-credentials"] == "true"
    assert answer.headers["cache-control"] == "no-store"
    (event,) = await recorded(desk)
    assert event == HistoryDecoded(
        principal="olga",
        through="session",
        namespace="default",
        payloads=tuple(sha256(b64decode(each["data"])).hexdigest() for each in body),
        # The agent's words name another one.
        calls=(REQUEST_ID,),
    )
    await olga.aclose()


async def test_a_command_line_reads_with_an_operators_token(desk: Office) -> None:
    headers = await token(desk)
    async with browser(desk) as client:
        for more in ({}, {"X-Namespace": "default"}, FROM_UI):
            answer = await client.post(PATH, json={"payloads": await sealed(PLAIN)}, headers={**headers, **more})
            assert answer.json() == {"payloads": [encoded(PLAIN)]}
    assert [(e.principal, e.through) for e in await recorded(desk) if isinstance(e, HistoryDecoded)] == [
        ("sre", "token")
    ] * 3


async def test_nobody_else_does(desk: Office) -> None:
    ana, olga, nobody = await sign_in(desk), await sign_in(desk, "olga"), browser(desk)
    foreign = {"Origin": "https://evil.example"}
    asked: list[tuple[httpx.AsyncClient, dict[str, str], int, str]] = [
        (nobody, FROM_UI, 401, "UNAUTHENTICATED"),
        (nobody, {"Authorization": "Bearer no-such-token", **FROM_UI}, 401, "UNAUTHENTICATED"),
        (ana, FROM_UI, 403, "FORBIDDEN"),
        # The cookie of an operator alone, as a page of any origin of this site can have it sent.
        (olga, {}, 401, "UNAUTHENTICATED"),
        (olga, foreign, 403, "FORBIDDEN"),
        (olga, {"Origin": "null"}, 403, "FORBIDDEN"),
        (olga, {"Origin": "http://counterseal.test"}, 403, "FORBIDDEN"),
        # A bad token is not made good by a session.
        (olga, {"Authorization": "Basic b2xnYQ==", **FROM_UI}, 401, "UNAUTHENTICATED"),
        (nobody, {**await token(desk), **foreign}, 403, "FORBIDDEN"),
        (nobody, await token(desk, "approver", name="ana"), 403, "FORBIDDEN"),
        (nobody, await token(desk, "service"), 403, "FORBIDDEN"),
        # Payloads have no tenant: they are for those who run the service.
        (nobody, await token(desk, tenant="other"), 403, "FORBIDDEN"),
    ]
    for client, headers, status, code in asked:
        answer = await client.post(PATH, json={"payloads": await sealed(PLAIN)}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code), headers
        readable = answer.headers.get("access-control-allow-origin")
        assert readable == (UI if headers.get("Origin") == UI else None)
    await desk.ledger.principals.add_user("other", "otto", "Otto Example", PASSWORD, ["operator"])
    otto = await sign_in(desk, "otto")
    answer = await otto.post(PATH, json={"payloads": await sealed(PLAIN)}, headers=FROM_UI)
    assert answer.status_code == 403
    assert await recorded(desk) == []
    for client in (ana, olga, nobody, otto):
        await client.aclose()


async def test_what_is_not_sealed_by_this_service_comes_back_as_it_is_unrecorded(desk: Office) -> None:
    others = await sealed(PLAIN, key=b"another" * 4 + b"key!")
    torn = [{**others[0], "data": ""}, {"metadata": {}, "data": ""}]
    headers = await token(desk)
    async with browser(desk) as client:
        for payloads in ([encoded(PLAIN)], others, torn, []):
            answer = await client.post(PATH, json={"payloads": payloads}, headers=headers)
            assert answer.json() == {"payloads": payloads}
        assert await recorded(desk) == []
        mixed = [encoded(PLAIN), *await sealed(PLAIN), *others]
        answer = await client.post(PATH, json={"payloads": mixed}, headers=headers)
    assert answer.json() == {"payloads": [encoded(PLAIN), encoded(PLAIN), *others]}
    (event,) = await recorded(desk)
    assert isinstance(event, HistoryDecoded)
    assert len(event.payloads) == 1


async def test_nothing_is_shown_that_cannot_be_recorded(desk: Office, monkeypatch: pytest.MonkeyPatch) -> None:
    async def away(*_: object) -> None:
        raise ConnectionRefusedError

    headers = {**await token(desk), **FROM_UI}
    monkeypatch.setattr(Streams, "append", away)
    async with browser(desk) as client:
        answer = await client.post(PATH, json={"payloads": await sealed(PLAIN)}, headers=headers)
    assert answer.status_code == 503
    assert REQUEST_ID not in answer.text
    assert b64encode(SAID).decode() not in answer.text
    # The UI can say why.
    assert answer.headers["access-control-allow-origin"] == UI


@pytest.mark.parametrize(
    ("content", "headers", "status"),
    [
        (b'{"payloads": 1}', {}, 422),
        (b'{"payloads": [{"data": "!"}]}', {}, 422),
        (b'{"payloads": [{"metadata": {"encoding": "YQ"}}]}', {}, 422),
        (b'{"payloads": [{"secret": ""}]}', {}, 422),
        (b"[]", {}, 422),
        (b"{", {}, 400),
        (b'{"payloads": []}', {"Content-Type": "text/plain"}, 415),
        (b'{"payloads": []}', {"X-Namespace": "another"}, 422),
        (b'{"payloads": [%s]}' % b",".join([b"{}"] * (MAX_PAYLOADS + 1)), {}, 422),
        (b'{"payloads": [{"data": "%s"}]}' % (b"A" * MAX_BYTES), {}, 413),
    ],
    ids=lambda given: given[:40].decode() if isinstance(given, bytes) else None,
)
async def test_what_cannot_be_read_is_refused(
    desk: Office, content: bytes, headers: dict[str, str], status: int
) -> None:
    given = {"Content-Type": "application/json", **await token(desk), **headers}
    async with browser(desk) as client:
        answer = await client.post(PATH, content=content, headers=given)
    assert (answer.status_code, answer.json()["code"]) == (status, "INVALID_INPUT")


async def test_browsers_are_told_that_the_ui_alone_may_ask(desk: Office) -> None:
    asks = {
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "content-type,x-namespace,authorization",
    }
    async with browser(desk) as client:
        allowed = await client.options(PATH, headers={**asks, "Origin": UI})
        assert allowed.status_code == 200
        assert allowed.headers["access-control-allow-origin"] == UI
        assert allowed.headers["access-control-allow-credentials"] == "true"
        assert "Authorization" in allowed.headers["access-control-allow-headers"]
        assert "X-Namespace" in allowed.headers["access-control-allow-headers"]
        for origin in ("https://evil.example", f"{UI}.evil.example", "null"):
            refused = await client.options(PATH, headers={**asks, "Origin": origin})
            assert refused.status_code == 400
            assert "access-control-allow-origin" not in refused.headers
        elsewhere = await client.options("/v1/tools", headers={**asks, "Origin": UI})
        assert "access-control-allow-origin" not in elsewhere.headers


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://127.0.0.1:8233", "http://127.0.0.1:8233"),
        ("https://Temporal.example.com:443/ui/", "https://temporal.example.com"),
        ("http://[::1]:8233/", "http://[::1]:8233"),
        ("http://name:secret@example.com", "http://example.com"),
        ("temporal.example.com", None),
        ("ftp://example.com", None),
        ("http://", None),
        ("http://example.com:port", None),
        ("", None),
        (None, None),
    ],
)
def test_an_origin_is_what_browsers_send(url: str | None, origin: str | None) -> None:
    assert origin_of(url) == origin
