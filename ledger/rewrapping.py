"""Changing the master key: what is under a former one, and putting it under the current one, while the service runs."""

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import asyncpg
from cryptography.exceptions import InvalidTag

from ledger.cards import open_card, order_index, order_of
from ledger.data_keys import DataKeys, KeyDestroyed
from ledger.database import Pool
from ledger.decision_bodies import open_decision
from ledger.keys import MasterKey
from ledger.policies import Policies
from ledger.queries import load
from ledger.signing import signed_under, verifying_keys
from ledger.vault import Sealer, WrongMasterKeyError

_SQL = load("rewrapping")
_BATCH = 500
DATA_KEYS, SEAL_KEYS, CREDENTIALS = "data keys", "seal keys", "credentials"
ORDERS, WAITING, POLICIES = "orders to find", "waiting decisions", "policy in force"
Done = Callable[[int], None]
_Anew = Callable[[asyncpg.Record], Awaitable[bytes | str | None]]


@dataclass(frozen=True, slots=True)
class Held:
    """What names which master key: kind -> the key's id -> how many. The id is None for what is from before there were
    ids, or under a key that is not here."""

    kinds: dict[str, Counter[str | None]]

    def by(self, key_id: str | None) -> dict[str, int]:
        """What a key is needed for."""
        return {kind: counts[key_id] for kind, counts in self.kinds.items() if counts[key_id]}


@dataclass(frozen=True, slots=True)
class Rewrapped:
    """How many were put under the current key, by kind; and how many no key here opens."""

    done: Counter[str] = field(default_factory=Counter[str])
    closed: Counter[str] = field(default_factory=Counter[str])


class Rewrapping:
    """Over every tenant's rows."""

    def __init__(self, pool: Pool, master: MasterKey, keys: DataKeys, policies: Policies) -> None:
        self._pool = pool
        self._policies = policies
        self._master = master
        self._keys = keys
        self._sealer = Sealer(master)

    async def held(self) -> Held:
        """What is under which of the keys in the database."""
        marks, ids = [key.mark for key in self._master.keys], [key.key_id for key in self._master.keys]
        kinds = {
            DATA_KEYS: await self._count("held_data_keys", marks, ids),
            SEAL_KEYS: await self._count("held_seal_keys", marks, ids),
            CREDENTIALS: await self._count("held_credentials", marks, ids),
            ORDERS: await self._count("held_order_indexes", ids),
            WAITING: Counter[str | None](),
            POLICIES: Counter[str | None](),
        }
        if await self._policies.number():
            kinds[POLICIES][await self._policies.signed_by()] += 1
        async for batch in self._batches("waiting_decisions", "decision_id"):
            for row in batch:
                async with self._pool.acquire() as connection:
                    key = await self._keys.by_id(connection, row["key_id"])
                kinds[WAITING][signed_under(open_decision(row, key).token, self._master)] += 1
        return Held(kinds)

    async def rewrap(self, done: Done = lambda count: None) -> Rewrapped:
        """Put everything under the current key, each row only as it was read, so that what is destroyed meanwhile stays
        destroyed. `done` is told of each batch. Broken off, it goes on where it was."""
        result, current = Rewrapped(), self._master.current
        for key_id, pem in verifying_keys(self._master).items():
            await self._pool.execute(_SQL["keep_public_key"], key_id, pem.decode())
        await self._each(DATA_KEYS, "data_keys", ("key_id", "wrapped"), self._wrapped, current.mark, result, done)
        await self._each(SEAL_KEYS, "seal_keys", ("key_id", "wrapped"), self._wrapped, current.mark, result, done)
        await self._each(
            CREDENTIALS, "credentials", ("credential_id", "sealed"), self._credential, current.mark, result, done
        )
        await self._each(ORDERS, "orders", ("approval_id", "order_index"), self._order, current.key_id, result, done)
        if await self._policies.sign_anew():
            result.done[POLICIES] += 1
        return result

    async def public_keys(self) -> dict[str, bytes]:
        """The public keys that decisions were signed with, by id, as PEM, as far as they were kept. Good for whoever
        compares them with one that they trust; nothing is executed on their word."""
        return {row["key_id"]: row["public_key"].encode() for row in await self._pool.fetch(_SQL["public_keys"])}

    async def _wrapped(self, row: asyncpg.Record) -> bytes:
        return self._master.wrap(self._master.unwrap(row["wrapped"], row["key_id"]), row["key_id"])

    async def _credential(self, row: asyncpg.Record) -> bytes:
        names = ("credential_id", "tenant", "system", "tool")
        return self._sealer.seal(self._sealer.open(row), *(row[name] for name in names))

    async def _order(self, row: asyncpg.Record) -> str | None:
        async with self._pool.acquire() as connection:
            key = await self._keys.by_id(connection, row["key_id"])
        order = order_of(open_card(row, key))
        return None if order is None else order_index(self._keys, row["tenant"], order)

    async def _each(
        self,
        kind: str,
        name: str,
        columns: tuple[str, str],
        anew: _Anew,
        current: bytes | str,
        result: Rewrapped,
        done: Done,
    ) -> None:
        """One kind; `columns`: its id, and what `anew` makes anew."""
        id_, column = columns
        async for batch in self._batches(f"{name}_to_rewrap", id_, current):
            opened: list[tuple[str, bytes | str, bytes | str | None]] = []
            for row in batch:
                try:
                    opened.append((row[id_], row[column], await anew(row)))
                except (InvalidTag, WrongMasterKeyError, KeyDestroyed):
                    result.closed[kind] += 1
            if opened:
                written = await self._pool.fetch(
                    _SQL[f"rewrap_{name}"], *(list(each) for each in zip(*opened, strict=True))
                )
                result.done[kind] += len(written)
            done(len(batch))

    async def _count(self, query: str, *parameters: object) -> Counter[str | None]:
        rows = await self._pool.fetch(_SQL[query], *parameters)
        return Counter({row["key_id"]: row["count"] for row in rows})

    async def _batches(self, query: str, id_: str, *parameters: object) -> AsyncIterator[list[asyncpg.Record]]:
        after = ""
        while rows := await self._pool.fetch(_SQL[query], *parameters, after, _BATCH):
            yield rows
            after = rows[-1][id_]
