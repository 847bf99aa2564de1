"""What a piece of work asks of Postgres and of systems outside, counted: statements by name, not how long they take."""

import re
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import asyncpg
import httpx
import pytest

from gateways import client as clients
from ledger import queries

SQL = Path(queries.__file__).parent / "sql"
NAMED = {
    f"{file.stem}.{name}": sql for file in sorted(SQL.glob("*.sql")) for name, sql in queries.load(file.stem).items()
}
"""Every query of the ledger, by file and name."""
SUMS = ("round trips", "transactions", "transactions that write", "connections taken")
_NAMES = {sql: name for name, sql in NAMED.items()}
_BEGIN, _END = ("BEGIN;",), ("COMMIT;", "ROLLBACK;")
_WRITES = re.compile(r"\b(?:INSERT|UPDATE|DELETE)\b")
# What stands in a path for an order, a payment, a customer.
_ID = re.compile(r"(?<=/)[a-z]+_[0-9a-f]{8,}")


@dataclass
class Asked:
    """What was asked since `clear`, by the processes that were made `within` it."""

    statements: list[tuple[int, str]] = field(default_factory=list[tuple[int, str]])
    """(connection, SQL), in order."""
    taken: int = 0
    """How often a connection was taken from a pool."""
    outside: Counter[str] = field(default_factory=Counter[str])
    """Requests to other systems."""

    def clear(self) -> None:
        self.statements.clear()
        self.outside.clear()
        self.taken = 0

    @contextmanager
    def within(self) -> Generator[None]:
        """Count for every pool and every client of systems outside that is made meanwhile, as long as those live.

        A pool has one connection, so that what comes with a new one has come when that one was used. With that nobody
        can hold two of a pool at once, which is as it should be: they would wait for each other.
        """
        create_pool, new_client = asyncpg.create_pool, clients.new_client

        def counted_pool(*arguments: Any, **options: Any) -> Any:
            begin = options["init"]

            async def listen(connection: Any) -> None:
                await begin(connection)
                connection.add_query_logger(partial(self._asked, id(connection)))

            return create_pool(*arguments, **{**options, "max_size": 1, "init": listen, "setup": take})

        async def take(connection: Any) -> None:
            self.taken += 1

        def counted_client() -> httpx.AsyncClient:
            client = new_client()
            # The client's own hooks are not asked: it hands requests to its transport as they are.
            transport = client._transport
            hand_over = transport.handle_async_request

            async def sent(request: httpx.Request) -> httpx.Response:
                self.outside[f"{request.method} {_ID.sub('…', request.url.path)}"] += 1
                return await hand_over(request)

            transport.handle_async_request = sent
            return client

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(asyncpg, "create_pool", counted_pool)
            patch.setattr("runtime.assembly.new_client", counted_client)
            yield

    def _asked(self, connection: int, logged: Any) -> None:
        self.statements.append((connection, logged.query))

    def counts(self) -> dict[str, int]:
        """How often each was asked, by name; with the sums."""
        named = Counter(_NAMES.get(sql, sql) for _, sql in self.statements)
        transactions = self._transactions()
        writing = sum(any(_WRITES.search(sql) for sql in each) for each in transactions)
        return {
            **dict(sorted(named.items())),
            **dict(zip(SUMS, (len(self.statements), len(transactions), writing, self.taken), strict=True)),
            **dict(sorted(self.outside.items())),
        }

    def _transactions(self) -> list[list[str]]:
        """The statements of each transaction; one outside of any is one by itself."""
        found: list[list[str]] = []
        begun: dict[int, list[str]] = {}
        for connection, sql in self.statements:
            if sql in _BEGIN:
                begun[connection] = []
                found.append(begun[connection])
            elif sql in _END:
                del begun[connection]
            elif connection in begun:
                begun[connection].append(sql)
            else:
                found.append([sql])
        return found
