"""`python -m sandbox.witness`: a witness in a process of its own."""

import argparse
import contextlib
import json
import logging
import os
import socket
import sys
from pathlib import Path

import uvicorn

from sandbox.serving import Server
from sandbox.witness.app import Witness, create_app
from sandbox.witness.notes import LogKey, Malformed
from sandbox.witness.state import Folder, Unusable


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    try:
        logs = [LogKey.parse(text) for text in options.log]
        folder = Folder(options.data)
        with contextlib.ExitStack() as stack:
            stack.enter_context(folder.held())
            cosigner = folder.cosigner(options.name)
            app = create_app(Witness(folder, cosigner, logs))
            family = socket.AF_INET6 if ":" in options.host else socket.AF_INET
            sock = stack.enter_context(socket.create_server((options.host, options.port), family=family))
            config = uvicorn.Config(
                app,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=75,
                timeout_graceful_shutdown=5,
            )
            host = f"[{options.host}]" if ":" in options.host else options.host
            url = f"http://{host}:{sock.getsockname()[1]}"
            logging.basicConfig(level=logging.ERROR, stream=sys.stderr)
            Server(config, lambda: _tell(url, cosigner.verifier_key)).run(sockets=[sock])
    except (Malformed, Unusable) as error:
        return _fail(str(error))
    except (OSError, OverflowError) as error:
        return _fail(f"cannot use {options.data} or port {options.port}: {type(error).__name__}")
    return 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m sandbox.witness", description="A witness of transparency logs (https://c2sp.org/tlog-witness)."
    )
    parser.add_argument("--data", type=Path, required=True, help="directory that keeps its key and what it has seen")
    parser.add_argument("--log", action="append", required=True, help="verifier key of a log; may be repeated")
    parser.add_argument("--name", help="of its key, at the first start; a URL without a scheme (else one is made up)")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--host", default="127.0.0.1")
    return parser.parse_args(arguments)


def _tell(url: str, verifier_key: str) -> None:
    sys.stdout.write(json.dumps({"url": url, "verifier_key": verifier_key, "pid": os.getpid()}) + "\n")
    sys.stdout.flush()


def _fail(message: str) -> int:
    sys.stderr.write(f"witness: {message}\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
