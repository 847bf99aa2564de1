"""Serving one app in a process of its own."""

import argparse
import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Callable, Generator, Sequence
from types import FrameType

import uvicorn
from starlette.types import ASGIApp


class Server(uvicorn.Server):
    """uvicorn's server that says when it accepts connections and leaves with 0 after SIGTERM or SIGINT."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        """Unlike uvicorn's, does not raise the signal again after the shutdown that it asked for."""

        def stop(number: int, frame: FrameType | None) -> None:
            self.should_exit = True

        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, stop)
        yield


def serve_keyed(
    name: str, description: str, make: Callable[[str], ASGIApp], arguments: Sequence[str] | None = None
) -> int:
    """The program `python -m sandbox.<name>`; its exit status. The app is made with the key that callers have to show,
    which the environment has as SANDBOX_<NAME>_KEY; one line of JSON says where it answers."""
    parser = argparse.ArgumentParser(prog=f"python -m sandbox.{name}", description=description)
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    port: int = parser.parse_args(arguments).port
    variable = f"SANDBOX_{name.upper()}_KEY"
    key = os.environ.get(variable, "")
    if not key:
        return _fail(name, f"{variable} is needed: the key that callers have to show")
    try:
        with socket.create_server(("127.0.0.1", port)) as sock:
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            config = uvicorn.Config(
                make(key), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
            )
            Server(config, lambda: _tell(url)).run(sockets=[sock])
    except (OSError, OverflowError) as problem:
        return _fail(name, f"cannot use port {port}: {type(problem).__name__}")
    return 0


def _tell(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def _fail(name: str, message: str) -> int:
    sys.stderr.write(f"{name}: {message}\n")
    return 1
