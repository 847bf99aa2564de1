"""`python -m sandbox.bank`: the bank in a process of its own."""

import sys

from sandbox.bank.app import Bank, create_app
from sandbox.serving import serve_keyed


def main(arguments: list[str] | None = None) -> int:
    return serve_keyed("bank", "A bank whose memory is its own.", lambda key: create_app(Bank(key)), arguments)


if __name__ == "__main__":
    sys.exit(main())
