"""`python -m sandbox.outbox`: the outbox in a process of its own."""

import sys

from sandbox.outbox.app import Outbox, create_app
from sandbox.serving import serve_keyed


def main(arguments: list[str] | None = None) -> int:
    return serve_keyed("outbox", "An outbox whose memory is its own.", lambda key: create_app(Outbox(key)), arguments)


if __name__ == "__main__":
    sys.exit(main())
