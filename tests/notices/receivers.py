"""Who is told: an HTTP receiver and a mail relay on real sockets, which keep what arrives and answer as told."""

import asyncio
import email
import json
import ssl
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, Envelope, Session
from standardwebhooks.webhooks import Webhook

from tests.service import until

SECRET = "whsec_" + "YW4gZXhhbXBsZSBzZWNyZXQgb2YgdGhlIHRlc3Rz"


@dataclass(frozen=True)
class Posted:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def notice_id(self) -> str:
        return self.headers.get("webhook-id") or self.headers["counterseal-notice"]

    def verified(self, secret: str = SECRET) -> Any:
        """The content, when it is signed with the secret. Raises WebhookVerificationError."""
        return Webhook(secret).verify(self.body, dict(self.headers))


@dataclass
class Receiver:
    """Answers each request with the next of `statuses`, and then with 204; keeps every request, answered or not."""

    url: str = ""
    statuses: list[int] = field(default_factory=list[int])
    headers: str = ""
    hold: asyncio.Event | None = None
    """Until it is set nothing is answered."""
    requests: list[Posted] = field(default_factory=list[Posted])

    async def arrived(self, number: int = 1) -> list[Posted]:
        """What has arrived, once it is so many."""

        async def enough() -> list[Posted] | None:
            return list(self.requests) if len(self.requests) >= number else None

        return await until(enough)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in head[1:-2])}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.requests.append(Posted(head[0].split(" ")[1], headers, body))
            if self.hold is not None:
                await self.hold.wait()
            status = self.statuses.pop(0) if self.statuses else 204
            if status:
                writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 0\r\n{self.headers}\r\n".encode())
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def receiving() -> AsyncGenerator[Receiver]:
    receiver = Receiver()
    server = await asyncio.start_server(receiver.serve, "127.0.0.1", 0)
    receiver.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    async with server:
        yield receiver


@dataclass(frozen=True)
class Mailed:
    """One mail, and who it is for as the relay was told."""

    sender: str
    recipients: list[str]
    mail: EmailMessage

    def part(self, subtype: str) -> str:
        found = self.mail.get_body(preferencelist=(subtype,))
        assert found is not None
        return found.get_content().replace("\r\n", "\n")


@dataclass
class Relay:
    """Takes mail unless `answer` says otherwise; `refuses` are addresses that it will not take."""

    port: int = 0
    answer: str = "250 OK"
    refuses: Mapping[str, str] = field(default_factory=dict[str, str])
    mails: list[Mailed] = field(default_factory=list[Mailed])
    signed_in: list[bytes] = field(default_factory=list[bytes])

    async def handle_RCPT(  # noqa: N802  # aiosmtpd's name
        self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]
    ) -> str:
        if address in self.refuses:
            return self.refuses[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:  # noqa: N802
        mail = email.message_from_bytes(cast("bytes", envelope.content), policy=default)
        self.mails.append(Mailed(str(envelope.mail_from), list(envelope.rcpt_tos), mail))
        return self.answer

    def authenticate(self, password: bytes) -> Callable[..., AuthResult]:
        def check(server: Any, session: Any, envelope: Any, mechanism: str, data: Any) -> AuthResult:
            self.signed_in.append(data.login)
            return AuthResult(success=data.password == password, handled=False)

        return check


@asynccontextmanager
async def relaying(
    *, starttls: ssl.SSLContext | None = None, tls: ssl.SSLContext | None = None, password: bytes | None = None
) -> AsyncGenerator[Relay]:
    """A relay that asks for STARTTLS, or speaks TLS from the start, or neither."""
    relay, loop = Relay(), asyncio.get_running_loop()
    options: dict[str, Any] = {"hostname": "relay.example", "loop": loop}
    if starttls is not None:
        options |= {"tls_context": starttls, "require_starttls": True}
    if password is not None:
        options |= {"auth_required": True, "authenticator": relay.authenticate(password)}
        options["auth_require_tls"] = tls is None
    server = await loop.create_server(lambda: SMTP(relay, **options), "127.0.0.1", 0, ssl=tls)
    relay.port = server.sockets[0].getsockname()[1]
    async with server:
        yield relay
        # What is left of a connection that failed takes a few turns of the loop.
        for _ in range(20):
            await asyncio.sleep(0)
