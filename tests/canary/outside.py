"""The world outside as it fails: remote systems that give away what they were told, and lines that can be cut."""

import asyncio
import contextlib
import json
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import httpx

from gateways.protocols import CreditRequest, DraftRequest, OrderChange, PaymentGateway, RefundRequest, Systems
from schemas.effects import Attempt, Inspection
from schemas.facts import Account, Order, Payment, Refund, RefundDraft, Shipment
from tests.canary.planted import Planted
from tests.diagnostics.remotes import Handler, read_request, response
from tests.service import Outside, SandboxUrls

Body = Callable[[str, Planted], bytes]
"""What a remote answers, from everything that it gives away in one text and what was planted."""
OVERSIZED = 1_100_000


class Shop(Outside):
    """The sandbox, whose customers have the planted e-mail address."""

    def __init__(self, urls: SandboxUrls, client: httpx.AsyncClient, planted: Planted) -> None:
        super().__init__(urls, client)
        self._shop, self._email = client, planted.email.text

    async def customer(self, customer_id: str, *, fraud_flag: bool = False) -> None:
        customer = {"customer_id": customer_id, "name": "Ada Example", "email": self._email, "fraud_flag": fraud_flag}
        (await self._shop.put(f"{self.urls.store}/_customers/{customer_id}", json=customer)).raise_for_status()


def stripe_error(type_: str, code: str | None = None) -> Body:
    def body(given_away: str, planted: Planted) -> bytes:
        error = {"type": type_, "message": given_away, "param": given_away, given_away: True}
        return json.dumps({"error": error | ({"code": code} if code else {})}).encode()

    return body


def store_error(code: str) -> Body:
    def body(given_away: str, planted: Planted) -> bytes:
        error = {"code": code, "message": given_away, given_away: True}
        return json.dumps({"error": error, "hint": given_away}).encode()

    return body


def malformed(given_away: str, planted: Planted) -> bytes:
    """JSON whose names are there twice, and which does not end."""
    return f'{{"id": {json.dumps(given_away)}, "id": {json.dumps(given_away)}, "status": "succ'.encode()


def login_page(given_away: str, planted: Planted) -> bytes:
    return f"<!doctype html><title>Sign in</title><form><p>{given_away}</p><input name=user></form>".encode()


def oversized(given_away: str, planted: Planted) -> bytes:
    return json.dumps({"id": given_away, "padding": "x" * OVERSIZED, "end": given_away}).encode()


def wrong_shape(given_away: str, planted: Planted) -> bytes:
    """Good JSON, wherein nothing is what it should be."""
    return json.dumps({"id": given_away, "object": given_away, "amount": given_away, "status": given_away}).encode()


def giving_away(planted: Planted, status: str, body: Body, *headers: str, media_type: str) -> Handler:
    """Answers with `status`, and repeats in body and headers all that it was sent and should keep to itself."""

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await read_request(reader)).decode("latin-1")
        sent = next(line for line in head.split("\r\n") if line.lower().startswith("authorization:"))
        authorization = sent.partition(":")[2].strip()
        given_away = f"{authorization} {planted.card.text} {planted.email.text} {planted.orders.text}"
        leaking = [f"{name}: {given_away}" for name in ("Set-Cookie", "WWW-Authenticate", "X-Debug")]
        # Of this one an account keeps what it says, unless it is the credential.
        sending = [f"Content-Type: {media_type}", f"Request-Id: {authorization}", "Connection: close"]
        sending += [*leaking, *headers]
        writer.write(response(body(given_away, planted), status, *sending))
        await writer.drain()

    return handle


class Switchboard:
    """The remote systems as the service reaches them: reads and writes may each be led elsewhere."""

    def __init__(self, real: Systems) -> None:
        self.real = self.reading = self.sending = real
        self.before_reading: Callable[[], None] = lambda: None
        """Called before a payment is read."""

    def systems(self) -> Systems:
        return Systems(payments=_Payments(self), orders=_Orders(self), helpdesk=self.real.helpdesk)

    @contextlib.contextmanager
    def led(self, *, reading: Systems | None = None, sending: Systems | None = None) -> Generator[None]:
        """What is given is used in place of the real systems meanwhile."""
        self.reading, self.sending = reading or self.real, sending or self.real
        try:
            yield
        finally:
            self.reading = self.sending = self.real


class _Payments:
    name = "stripe"
    key_validity = timedelta(hours=24)

    def __init__(self, board: Switchboard) -> None:
        self._board = board

    @property
    def _facts(self) -> PaymentGateway:
        self._board.before_reading()
        return self._board.reading.payments

    async def payment(self, payment_id: str) -> Payment | None:
        return await self._facts.payment(payment_id)

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        return await self._facts.refunds(payment_id)

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        return await self._facts.refunds_between(since, until)

    async def refund(self, request: RefundRequest) -> Attempt:
        return await self._board.sending.payments.refund(request)

    async def find_refund(self, request: RefundRequest) -> Inspection:
        return await self._board.sending.payments.find_refund(request)


class _Accounts:
    def __init__(self, board: Switchboard) -> None:
        self._board = board

    async def account(self, customer_id: str) -> Account | None:
        return await self._board.reading.orders.account(customer_id)

    async def shipment(self, tracking_id: str) -> Shipment | None:
        return await self._board.reading.orders.shipment(tracking_id)

    async def draft(self, draft_id: str) -> RefundDraft | None:
        return await self._board.reading.orders.draft(draft_id)

    async def create_draft(self, request: DraftRequest) -> Attempt:
        return await self._board.sending.orders.create_draft(request)

    async def find_draft(self, request: DraftRequest) -> Inspection:
        return await self._board.sending.orders.find_draft(request)

    async def credit(self, request: CreditRequest) -> Attempt:
        return await self._board.sending.orders.credit(request)

    async def find_credit(self, request: CreditRequest) -> Inspection:
        return await self._board.sending.orders.find_credit(request)


class _Orders(_Accounts):
    name = "store"
    key_validity = timedelta(hours=24)

    async def order(self, order_id: str) -> Order | None:
        return await self._board.reading.orders.order(order_id)

    async def orders(self, customer_id: str, limit: int) -> tuple[Sequence[Order], int]:
        return await self._board.reading.orders.orders(customer_id, limit)

    async def change(self, change: OrderChange) -> Attempt:
        return await self._board.sending.orders.change(change)

    async def find_change(self, change: OrderChange) -> Inspection:
        return await self._board.sending.orders.find_change(change)


class Line:
    """A TCP line to a server, which can be cut: what runs over it ends at once, and nobody gets through."""

    def __init__(self, host: str, port: int) -> None:
        self._to = (host, port)
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self.port = 0

    async def mend(self) -> None:
        self._server = await asyncio.start_server(self._connect, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    def cut(self) -> None:
        if self._server is not None:
            self._server.close()
        for writer in self._open:
            writer.transport.abort()

    async def close(self) -> None:
        self.cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            far_reader, far_writer = await asyncio.open_connection(*self._to)
            self._open |= {writer, far_writer}
            task = asyncio.create_task(_join((reader, writer), (far_reader, far_writer)))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
            await task
            self._open -= {writer, far_writer}


_End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _join(near: _End, far: _End) -> None:
    await asyncio.gather(_pass_on(near[0], far[1]), _pass_on(far[0], near[1]))


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while content := await reader.read(65536):
            writer.write(content)
            await writer.drain()
    writer.close()


@asynccontextmanager
async def line_to(host: str, port: int) -> AsyncGenerator[Line]:
    line = Line(host, port)
    await line.mend()
    try:
        yield line
    finally:
        await line.close()
