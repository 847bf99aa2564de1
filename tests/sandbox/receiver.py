"""Somebody's endpoint for webhooks: keeps what arrives, answers what it is told to."""

import hashlib
import hmac
import json
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WAIT_SECONDS = 15


@dataclass(frozen=True)
class Arrived:
    """One request: its `Stripe-Signature`, taken apart, and its body."""

    signature: list[tuple[str, str]]
    body: bytes

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)

    @property
    def at(self) -> int:
        return int(dict(self.signature)["t"])

    def is_signed_by(self, secret: str) -> bool:
        """As https://docs.stripe.com/webhooks#verify-manually says, the time aside."""
        expected = hmac.new(secret.encode(), f"{self.at}.".encode() + self.body, hashlib.sha256).hexdigest()
        return ("v1", expected) in self.signature


@dataclass
class Receiver:
    url: str
    status: int = 200
    arrived: list[Arrived] = field(default_factory=list[Arrived])
    on_arrival: Callable[[Arrived], None] = field(default=lambda arrived: None)
    _news: threading.Condition = field(default_factory=threading.Condition)

    def take(self, arrived: Arrived) -> int:
        self.on_arrival(arrived)
        with self._news:
            self.arrived.append(arrived)
            self._news.notify_all()
            return self.status

    def wait(self, enough: Callable[[list[Arrived]], bool]) -> list[Arrived]:
        """Everything that has arrived, once that is enough."""
        with self._news:
            assert self._news.wait_for(lambda: enough(self.arrived), WAIT_SECONDS), self.types
            return list(self.arrived)

    def wait_for(self, *types: str) -> dict[str, Arrived]:
        """The first event of each of these types, once all are there."""
        arrived = self.wait(lambda all_: {each.event["type"] for each in all_} >= set(types))
        return {each.event["type"]: each for each in reversed(arrived)}

    @property
    def types(self) -> list[str]:
        return [each.event["type"] for each in self.arrived]

    def forget(self) -> None:
        with self._news:
            self.arrived.clear()


@contextmanager
def receiver(port: int = 0) -> Generator[Receiver]:
    """A receiver on a free port, or on that one."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            assert self.headers["Content-Type"] == "application/json; charset=utf-8"
            parts = [part.partition("=") for part in self.headers.get("Stripe-Signature", "").split(",") if part]
            status = taker.take(Arrived([(name, value) for name, _, value in parts], body))
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the base class's name
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        taker = Receiver(f"http://127.0.0.1:{server.server_address[1]}/hooks")
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield taker
        finally:
            server.shutdown()
            thread.join()
