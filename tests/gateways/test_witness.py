"""Asking a witness for its cosignature, against servers that answer as a witness does, and as one should not."""

import asyncio

import httpx
import pytest

from gateways.client import new_client
from gateways.egress import Denial, Egress
from gateways.witness import MAX_BODY_BYTES, WitnessAt, WitnessRefused, WitnessUnreachable, add_checkpoint
from tests.gateways.test_http import (
    Handler,
    Serve,
    answering,
    drop_after_reading,
    read_request,
    reset_after_reading,
    response,
)

NOTE = "example.com/log\n3\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n— example.com/log AAAAAAAA\n"
COSIGNATURES = ["— witness.example/w1 AAAAAAAA", "— witness.example/w2 BBBBBBBB"]
SIZE = "Content-Type: text/x.tlog.size"


async def ask(client: httpx.AsyncClient, url: str, old_size: int = 2, *, deadline: float = 5.0) -> list[str]:
    egress = Egress({"witness": (url,)}, private=["witness"])
    proof = [bytes(32), bytes(range(32))] if old_size else []
    return await add_checkpoint(client, egress, "witness", url, old_size, proof, NOTE, deadline_seconds=deadline)


def answer(status: str, body: bytes = b"", *headers: str) -> Handler:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *headers]
    return answering("\r\n".join(lines).encode() + b"\r\n\r\n" + body)


async def test_the_request_is_what_a_witness_reads(client: httpx.AsyncClient, serve: Serve) -> None:
    seen: list[bytes] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(await read_request(reader))
        writer.write(response("".join(f"{each}\n" for each in COSIGNATURES).encode()))
        await writer.drain()

    base = await serve(handle)
    assert await ask(client, f"{base}/submit/") == COSIGNATURES
    assert await ask(client, base, 0) == COSIGNATURES
    bodies = [each.partition(b"\r\n\r\n") for each in seen]
    assert [head.split(b"\r\n")[0] for head, _, _ in bodies] == [
        b"POST /submit/add-checkpoint HTTP/1.1",
        b"POST /add-checkpoint HTTP/1.1",
    ]
    hashes = f"{'A' * 43}=\nAAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"
    assert [body.decode() for _, _, body in bodies] == [f"old 2\n{hashes}\n{NOTE}", f"old 0\n\n{NOTE}"]


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        ("403 Forbidden", "unknown_key"),
        ("404 Not Found", "unknown_log"),
        ("422 Unprocessable Entity", "not_consistent"),
        ("409 Conflict", "other_root"),
    ],
)
async def test_a_refusal(client: httpx.AsyncClient, serve: Serve, status: str, reason: str) -> None:
    with pytest.raises(WitnessRefused) as refusal:
        await ask(client, await serve(answer(status, b"no\n")))
    assert refusal.value.reason == reason


async def test_a_witness_that_is_elsewhere_says_where(client: httpx.AsyncClient, serve: Serve) -> None:
    for size in (0, 1, 20852163):
        with pytest.raises(WitnessAt) as elsewhere:
            await ask(client, await serve(answer("409 Conflict", b"%d\n" % size, SIZE)))
        assert elsewhere.value.size == size
    with pytest.raises(WitnessRefused) as refusal:
        await ask(client, await serve(answer("409 Conflict", b"2\n", SIZE)))
    assert refusal.value.reason == "other_root"


@pytest.mark.parametrize(
    ("status", "body", "headers", "reason"),
    [
        ("200 OK", b"", (), "unreadable"),
        ("200 OK", b"\n", (), "unreadable"),
        ("200 OK", COSIGNATURES[0].encode(), (), "unreadable"),
        ("200 OK", f"{COSIGNATURES[0]}\n\n{COSIGNATURES[1]}\n".encode(), (), "unreadable"),
        ("200 OK", "— a b AAAA\n".encode(), (), "unreadable"),
        ("200 OK", b"\xff\n", (), "unreadable"),
        ("200 OK", b"<html>", (), "unreadable"),
        ("200 OK", b"x" * (MAX_BODY_BYTES + 1), (), "too_large"),
        ("307 Temporary Redirect", b"", ("Location: /elsewhere",), "http_307"),
        ("400 Bad Request", b"", (), "http_400"),
        ("503 Service Unavailable", b"sk_secret", (), "http_503"),
    ],
)
async def test_an_answer_that_is_of_no_use(
    client: httpx.AsyncClient, serve: Serve, status: str, body: bytes, headers: tuple[str, ...], reason: str
) -> None:
    with pytest.raises(WitnessUnreachable) as failure:
        await ask(client, await serve(answer(status, body, *headers)))
    assert (failure.value.reason, failure.value.args) == (reason, (reason,))
    assert failure.value.__cause__ is None


async def test_no_answer(client: httpx.AsyncClient, serve: Serve) -> None:
    for handler in (drop_after_reading, reset_after_reading):
        with pytest.raises(WitnessUnreachable) as failure:
            await ask(client, await serve(handler))
        assert failure.value.reason == "no_answer"


async def test_a_drip_ends_at_the_deadline(client: httpx.AsyncClient, serve: Serve) -> None:
    stopped = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        while not stopped.is_set():
            writer.write(b"x")
            await writer.drain()
            await asyncio.sleep(0.02)

    with pytest.raises(WitnessUnreachable) as failure:
        await ask(client, await serve(drip), deadline=0.3)
    stopped.set()
    assert failure.value.reason == "timeout"


async def test_only_a_listed_witness_is_asked(serve: Serve) -> None:
    denied: list[Denial] = []
    url = await serve(answer("200 OK"))
    async with new_client() as client:
        for name, private, at in (("witness", (), url.replace("127.0.0.1", "localhost")), ("other", ("other",), url)):
            egress = Egress({name: (at,)}, private=private, denied=denied.append)
            with pytest.raises(WitnessUnreachable) as failure:
                await add_checkpoint(client, egress, "witness", at, 0, [], NOTE)
            assert failure.value.reason == "egress_denied"
    assert [each.because for each in denied] == ["address_not_allowed", "origin_not_listed"]
