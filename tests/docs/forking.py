"""The `counterseal` program as a server that forks: what a page runs starts without importing it all again.

`python -m tests.docs.forking SOCKET` answers `counterseal` of `stub`, a script for the PATH: it hands over its
arguments, environment, folder and standard streams, and ends with the status that it gets back.
"""

import importlib
import json
import os
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

from runtime.cli.main import COMMANDS, run

_STUB = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect({path!r})
    said = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
    socket.send_fds(server, [len(said).to_bytes(4)], [0, 1, 2])
    server.sendall(said)
    sys.exit(server.recv(1)[0])
"""


def stub(path: Path) -> str:
    """The script that asks the server at `path`."""
    return _STUB.format(python=sys.executable, path=str(path))


def _answer(connection: socket.socket) -> None:
    head, descriptors, _, _ = socket.recv_fds(connection, 4, 3)
    wanted, got = int.from_bytes(head), b""
    while len(got) < wanted:
        got += connection.recv(wanted - len(got))
    arguments, environment, folder = json.loads(got)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
        os.close(descriptor)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    status = 1
    try:
        status = run(arguments)
    finally:
        with suppress(BrokenPipeError):
            sys.stdout.flush()
        sys.stderr.flush()
        connection.sendall(bytes([status]))


def serve(path: str) -> None:
    for module, _ in COMMANDS.values():
        importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(path)
        server.listen()
        while True:
            connection, _ = server.accept()
            with connection:
                if os.fork() == 0:
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    try:
                        _answer(connection)
                    finally:
                        os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1])
