"""`python -m sandbox`: gateway, store and helpdesk in one process, on three ports."""

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from sandbox.app import GATEWAY_KEY, HELPDESK_KEY, STORE_KEY, Keys, MissingKeyError, create_apps
from sandbox.hostile import TransportProtocol
from sandbox.loading import LoadError, load_demo, load_folder
from sandbox.state import State, open_state
from sandbox.webhooks import queue
from sandbox.webhooks.control import loopback
from sandbox.webhooks.courier import Courier

WEBHOOK_URL, WEBHOOK_SECRET = "SANDBOX_WEBHOOK_URL", "SANDBOX_WEBHOOK_SECRET"


class Server(uvicorn.Server):
    """uvicorn's server that says when it accepts connections, delivers webhooks meanwhile, and leaves with 0 after
    SIGTERM or SIGINT."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None], courier: Courier) -> None:
        super().__init__(config)
        self._ready = ready
        self._courier = courier

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    async def main_loop(self) -> None:
        delivering = asyncio.create_task(self._courier.run())
        delivering.add_done_callback(self._stop)
        try:
            await super().main_loop()
        finally:
            delivering.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await delivering

    def _stop(self, delivering: asyncio.Task[None]) -> None:
        self.should_exit = True

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Unlike uvicorn's, does not raise the signal again after the shutdown that it asked for."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        yield


def by_port(apps: dict[int, ASGIApp]) -> ASGIApp:
    """One app that hands each request to the app of the port it came in on."""

    async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
        await apps[scope["server"][1]](scope, receive, send)

    return dispatch


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    try:
        keys = Keys.from_environment()
        with contextlib.ExitStack() as stack:
            state = stack.enter_context(contextlib.closing(open_state(options.data)))
            _configure_webhooks(state, options.webhook_url)
            courier = Courier(state)
            if options.store is None:
                load_demo(state)
            else:
                load_folder(state, options.store)
            sockets = [
                stack.enter_context(_listen(options.host, port))
                for port in (options.gateway_port, options.store_port, options.helpdesk_port)
            ]
            _serve(options, dict(zip(sockets, create_apps(state, keys, courier), strict=True)), courier)
    except (MissingKeyError, LoadError, _UnavailableError, _BadWebhookError) as error:
        return _fail(str(error))
    except (OSError, sqlite3.Error) as error:
        return _fail(f"cannot use {options.data}: {type(error).__name__}")
    return 0


class _UnavailableError(Exception):
    """An address that cannot be listened on."""


class _BadWebhookError(Exception):
    """An address that webhooks cannot be sent to."""


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox",
        description="A simulated payment gateway, order store and helpdesk.",
        epilog=f"Callers' keys come from the environment ({GATEWAY_KEY}, {STORE_KEY}, {HELPDESK_KEY}),"
        f" and so does {WEBHOOK_SECRET}, by which webhooks are signed.",
    )
    parser.add_argument("--data", type=Path, required=True, help="directory that keeps all state")
    parser.add_argument("--store", type=Path, help="folder with orders.jsonl and customers.jsonl (else demo orders)")
    parser.add_argument("--gateway-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--store-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--helpdesk-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--ready-file", type=Path, help="written once all answer: the URLs and the process id as JSON")
    parser.add_argument(
        "--webhook-url",
        default=os.environ.get(WEBHOOK_URL),
        help=f"where webhooks go (else {WEBHOOK_URL}, else nowhere)",
    )
    return parser.parse_args(arguments)


def _configure_webhooks(state: State, url: str | None) -> None:
    secret = os.environ.get(WEBHOOK_SECRET, "")
    if url and not secret:
        raise MissingKeyError(f"{WEBHOOK_SECRET} is not set")
    try:
        queue.configure(state, loopback(url) if url else None, secret)
    except ValueError as error:
        raise _BadWebhookError(f"the webhooks' address {error}") from None


def _listen(host: str, port: int) -> socket.socket:
    sock = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(2048)
    except (OSError, OverflowError) as error:
        sock.close()
        raise _UnavailableError(
            f"cannot listen on {host}:{port}: {getattr(error, 'strerror', None) or error}"
        ) from error
    sock.setblocking(False)
    return sock


def _serve(options: argparse.Namespace, apps: dict[socket.socket, ASGIApp], courier: Courier) -> None:
    sockets = list(apps)
    ports = [sock.getsockname()[1] for sock in sockets]
    config = uvicorn.Config(
        by_port(dict(zip(ports, apps.values(), strict=True))),
        loop="uvloop",
        http=TransportProtocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        # Longer than clients keep an idle connection, so that none is closed under a request except by a fault.
        timeout_keep_alive=75,
        # What still runs at a stop is a delay or a drip that would take for ever.
        timeout_graceful_shutdown=1,
    )
    logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
    host = f"[{options.host}]" if ":" in options.host else options.host
    urls = [f"http://{host}:{port}" for port in ports]

    def ready() -> None:
        document = json.dumps({"gateway": urls[0], "store": urls[1], "helpdesk": urls[2], "pid": os.getpid()})
        if options.ready_file is not None:
            _write_atomically(options.ready_file, document)
        sys.stdout.write(f"{document}\n")
        sys.stdout.flush()

    Server(config, ready, courier).run(sockets=sockets)


def _write_atomically(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _fail(message: str) -> int:
    sys.stderr.write(f"sandbox: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
