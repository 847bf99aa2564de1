"""Serves localstripe on a free port of 127.0.0.1 and counts the refunds that it is asked for, by their key.

Runs in an environment of its own. Usage: serve_localstripe.py READY-FILE. Ends with its standard input.
"""

# pyright: basic, reportMissingImports=false
import asyncio
import collections
import json
import os
import sys
import threading
from pathlib import Path

from aiohttp import web
from localstripe.resources import Refund, store
from localstripe.server import app

sends = collections.Counter()


class RefundWithReason(Refund):
    """Stripe documents `reason`; localstripe takes a request that has one for an error."""

    def __init__(self, reason=None, **parameters):
        super().__init__(**parameters)
        self.reason = reason


def create_refund(**parameters):
    return RefundWithReason(**parameters)


@web.middleware
async def count(request, handler):
    if request.path == "/_sends":
        return web.json_response(sends)
    if (request.method, request.path) == ("POST", "/v1/refunds"):
        sends[request.headers.get("Idempotency-Key")] += 1
    return await handler(request)


async def serve(ready: Path) -> None:
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    new = ready.with_suffix(".new")
    new.write_text(json.dumps({"gateway": f"http://{host}:{port}"}))
    new.rename(ready)
    await asyncio.Event().wait()


def end_with_standard_input() -> None:
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    # It would write all that it knows into a file under /tmp at every change.
    type(store).dump_to_disk = lambda self: None
    Refund._api_create = staticmethod(create_refund)
    app.middlewares.insert(0, count)
    threading.Thread(target=end_with_standard_input, daemon=True).start()
    asyncio.run(serve(Path(sys.argv[1])))
