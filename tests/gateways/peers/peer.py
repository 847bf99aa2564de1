"""What a payment gateway can do that adapters are proved against. Each is a module beside this one; `pairs` lists them.

A peer plays the remote side and knows what really happened there, by ways that no adapter has. What it cannot do is not
among its abilities, and tests that need it are not collected for it.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

import httpx
from pydantic import SecretStr

from gateways.registry import Endpoint
from tests import loopback

Urls = Mapping[str, str]
"""Base URLs by name; `gateway` is always there."""

Start = Callable[[Path], AbstractContextManager[Urls]]
"""Starts the program in an empty folder and stops it in the end. Peers with the same one share the program."""

Ability = Literal[
    "bounds",  # refuses what is more than was paid, and an amount of nothing
    "disputes",  # `disputed_payment`
    "keys",  # makes nothing more with a key that was there before, and never what the key is not for
    "lists_by_time",  # lists refunds of all payments by when they were made
    "late_status",  # `set_status`
    "newest_first",  # lists in the order that its documentation promises
    "payment_intents",  # `intent`
    "reads_payments",  # tells of a payment all that its documentation promises
    "three_decimals",  # takes currencies with three decimals
]

FaultTable = Mapping[str, tuple[str, int, str]]
ReadFaultTable = Mapping[str, tuple[str, str | None]]


@dataclass(frozen=True, slots=True)
class Made:
    """A refund that really happened, `amount` in ISO 4217 minor units."""

    refund_id: str
    amount: int
    currency: str
    operation_id: str | None
    status: str


class Peer(ABC):
    """A running peer, seen from a test. Amounts in and out are ISO 4217 minor units."""

    start: ClassVar[Start]
    abilities: ClassVar[frozenset[Ability]] = frozenset()
    key: ClassVar[str]
    """The credential it takes; every other is refused."""
    unknown_payment: ClassVar[str]
    key_taken: ClassVar[str] = "unknown http_400"
    """What an attempt says that comes with the key of another refund."""
    other_currency: ClassVar[str] = "unknown mismatched_currency"
    """What an attempt says in another currency than was paid."""
    refund_faults: ClassVar[FaultTable] = {}
    """A fault of a refund -> what the attempt says, refunds really made, what an inspection afterwards says."""
    list_faults: ClassVar[ReadFaultTable] = {}
    """A fault of listing refunds, ours among them -> what an inspection says, with which problem a read fails."""

    def __init__(self, urls: Urls, client: httpx.AsyncClient) -> None:
        self.urls = urls
        self.client = client
        self.egress = loopback.egress(*urls.values())

    @property
    def url(self) -> str:
        return self.urls["gateway"]

    def endpoint(self, url: str | None = None, *, key: str | None = None, deadline_seconds: float = 5.0) -> Endpoint:
        return Endpoint(base_url=url or self.url, api_key=SecretStr(key or self.key), deadline_seconds=deadline_seconds)

    @abstractmethod
    async def payment(self, amount: int = 10_000, currency: str = "USD") -> str:
        """A new captured payment: its id."""

    @abstractmethod
    async def made(self, payment_id: str) -> list[Made]:
        """Every refund of the payment that really happened; those by hand may be left out."""

    @abstractmethod
    async def sends(self, idempotency_key: str) -> int:
        """How many requests for a refund have come with this key."""

    @abstractmethod
    async def refund_by_hand(self, payment_id: str, amount: int) -> None:
        """A refund as a person makes it in the gateway's dashboard: without a name of ours."""

    async def intent(self) -> str:
        """A payment of 100.00 USD by the name of its payment intent."""
        raise NotImplementedError

    async def disputed_payment(self) -> str:
        raise NotImplementedError

    async def set_status(self, refund_id: str, status: str) -> None:
        raise NotImplementedError

    async def fault(self, operation: str, do: str, payment_id: str, times: int = 1) -> None:
        """The next `times` requests about this payment go wrong. `operation` is `refund`, `list` or `get`."""
        raise NotImplementedError

    async def clear_faults(self) -> None:
        """Nothing goes wrong any more."""
        return
