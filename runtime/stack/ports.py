"""Ports on 127.0.0.1: chosen among free ones, promised to one stack, remembered for the next start."""

import json
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from pydantic import TypeAdapter, ValidationError

from runtime.stack.files import write_private

HOST = "127.0.0.1"

_PORTS = TypeAdapter(dict[str, int])


def is_free(port: int) -> bool:
    """Whether a server could listen on this port now (connections still in TIME_WAIT do not count)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


class PortClaims:
    """Ports promised to this process, so that two stacks that start at the same moment do not pick the same one.

    A claim is a bound abstract Unix socket: it has no file and ends with the process. Elsewhere than on Linux nothing
    is claimed, and only ports that are in use already are avoided.
    """

    def __init__(self) -> None:
        self._held = ExitStack()

    def claim(self, port: int) -> bool:
        """Promise `port` to this process; False when it is in use or promised to another."""
        if not is_free(port):
            return False
        if sys.platform != "linux":
            return True
        claim = socket.socket(socket.AF_UNIX)
        try:
            claim.bind(f"\0counterseal-port-{port}")
        except OSError:
            claim.close()
            return False
        self._held.enter_context(claim)
        return True

    def claim_any(self) -> int:
        """Promise a free port of the system's choice."""
        while True:
            with socket.socket() as probe:
                probe.bind((HOST, 0))
                port: int = probe.getsockname()[1]
            if self.claim(port):
                return port

    def close(self) -> None:
        self._held.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def choose(
    preferred: Mapping[str, int], memory: Path, claims: PortClaims, asked: Mapping[str, int] | None = None
) -> dict[str, int]:
    """Choose one port per name and remember them in the JSON file `memory`.

    The first that can be had of: the one the caller `asked` for, the one used last time (addresses stay the same over
    a restart), the preferred one, any other.
    """
    remembered = _read(memory)
    asked = asked or {}
    chosen: dict[str, int] = {}
    for name, usual in preferred.items():
        candidates = [port for port in (asked.get(name), remembered.get(name), usual) if port]
        chosen[name] = next((port for port in candidates if claims.claim(port)), 0) or claims.claim_any()
    write_private(memory, json.dumps(chosen, indent=1))
    return chosen


def _read(memory: Path) -> dict[str, int]:
    try:
        ports = _PORTS.validate_json(memory.read_bytes())
    except (OSError, ValidationError):
        return {}
    return {name: port for name, port in ports.items() if 0 < port < 65536}
