"""Serving one app in a process of its own."""

import contextlib
import signal
import socket
from collections.abc import Callable, Generator
from types import FrameType

import uvicorn


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
