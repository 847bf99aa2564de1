"""`python -m sandbox.bank`: the bank in a process of its own."""

import argparse
import json
import os
import socket
import sys

import uvicorn

from sandbox.bank.app import Bank, create_app
from sandbox.serving import Server


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sandbox.bank", description="A bank whose memory is its own.")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    options = parser.parse_args(arguments)
    key = os.environ.get("SANDBOX_BANK_KEY", "")
    if not key:
        return _fail("SANDBOX_BANK_KEY is needed: the key that callers have to show")
    try:
        with socket.create_server(("127.0.0.1", options.port)) as sock:
            url = f"http://127.0.0.1:{sock.getsockname()[1]}"
            config = uvicorn.Config(
                create_app(Bank(key)), lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=1
            )
            Server(config, lambda: _tell(url)).run(sockets=[sock])
    except (OSError, OverflowError) as problem:
        return _fail(f"cannot use port {options.port}: {type(problem).__name__}")
    return 0


def _tell(url: str) -> None:
    sys.stdout.write(json.dumps({"url": url, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def _fail(message: str) -> int:
    sys.stderr.write(f"bank: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
