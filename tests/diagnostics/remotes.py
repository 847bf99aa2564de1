"""Remote systems that fail in every way there is, on real sockets."""

import asyncio
import datetime
import ipaddress
import socket
import ssl
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
LOGIN_PAGE = b"<html><form action=/login>Sign in, Ada Example</form></html>"


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of a request and its body."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.split(b":")[1]))
    return head


def response(body: bytes, status: str = "200 OK", *headers: str) -> bytes:
    lines = [f"HTTP/1.1 {status}", f"Content-Length: {len(body)}", *(headers or ["Content-Type: application/json"])]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def answering(*responses: bytes) -> Handler:
    """Sends the responses to the requests of a connection in turn, then closes it."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for each in responses:
            await read_request(reader)
            writer.write(each)
            await writer.drain()

    return handle


async def echo_authorization(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Repeats the credential in its body, and in a header that is kept."""
    head = (await read_request(reader)).decode("latin-1")
    line = next(each for each in head.split("\r\n") if each.lower().startswith("authorization:"))
    value = line.partition(":")[2].strip()
    error = f'{{"error": {{"type": "authentication_error", "message": "not with {value}"}}}}'.encode()
    writer.write(response(error, "401 Unauthorized", "Content-Type: application/json", f"Request-Id: {value}"))


async def never_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await reader.read()


async def reset_after_reading(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await read_request(reader)
    sock: socket.socket = writer.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


HTML = answering(response(LOGIN_PAGE, "200 OK", "Content-Type: text/html; charset=utf-8", "Set-Cookie: session=1"))
MALFORMED = answering(response(b'{"id": "re_1", "id": "re_2"}'))


@asynccontextmanager
async def serving(handler: Handler, tls: ssl.SSLContext | None = None) -> AsyncGenerator[str]:
    """A TCP server with a handler for each connection; gives its base URL."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handler(reader, writer)
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, ssl=tls)
    try:
        yield f"{'https' if tls else 'http'}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


def untrusted_tls(folder: Path) -> ssl.SSLContext:
    """TLS with a certificate that nobody vouches for."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .sign(key, hashes.SHA256())
    )
    file = folder / "server.pem"
    file.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context
