"""`python -m sandbox.paypal`: the simulated PayPal in a process of its own."""

import argparse
import contextlib
import json
import logging
import os
import socket
import sqlite3
import sys
from pathlib import Path

import uvicorn

from sandbox.app import MissingKeyError
from sandbox.hostile import TransportProtocol
from sandbox.paypal.app import CLIENT_ID, CLIENT_SECRET, client_from_environment, create_app
from sandbox.paypal.state import open_state
from sandbox.serving import Server


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    try:
        client = client_from_environment(options.token_seconds)
        with contextlib.ExitStack() as stack:
            state = stack.enter_context(contextlib.closing(open_state(options.data)))
            sock = stack.enter_context(socket.create_server(("127.0.0.1", options.port), backlog=2048))
            config = uvicorn.Config(
                create_app(state, client),
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
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
            Server(config, lambda: _tell(options.ready_file, url)).run(sockets=[sock])
    except MissingKeyError as error:
        return _fail(str(error))
    except (OSError, OverflowError, sqlite3.Error) as error:
        return _fail(f"cannot use {options.data} or port {options.port}: {type(error).__name__}")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.paypal",
        description="A simulated PayPal.",
        epilog=f"The client's id and secret come from the environment: {CLIENT_ID}, {CLIENT_SECRET}.",
    )
    parser.add_argument("--data", type=Path, required=True, help="directory that keeps all state")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--token-seconds", type=int, default=32_400, help="how long an access token lasts")
    parser.add_argument("--ready-file", type=Path, help="written once it answers: the URL and the process id as JSON")
    return parser.parse_args(arguments)


def _tell(ready_file: Path | None, url: str) -> None:
    document = json.dumps({"gateway": url, "pid": os.getpid()})
    if ready_file is not None:
        draft = ready_file.with_name(f".{ready_file.name}.{os.getpid()}")
        draft.write_text(document, encoding="utf-8")
        draft.replace(ready_file)
    sys.stdout.write(f"{document}\n")
    sys.stdout.flush()


def _fail(message: str) -> int:
    sys.stderr.write(f"sandbox: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
