"""Which adapter is proved against which peers. The one place that lists them."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import pytest

from tests.gateways.peers.localstripe import LocalStripe
from tests.gateways.peers.paypal import PayPalPeer
from tests.gateways.peers.peer import Ability, Peer
from tests.gateways.peers.sandbox import SandboxPeer
from tests.gateways.peers.stateful_mock import StatefulMock


@dataclass(frozen=True, slots=True)
class Pair:
    """An adapter by its name in `gateways.registry`, and a gateway that it must work with."""

    adapter: str
    peer: type[Peer]

    def __str__(self) -> str:
        return f"{self.adapter}-{self.peer.__name__}"


PAIRS = (
    Pair("stripe", SandboxPeer),
    Pair("stripe", StatefulMock),
    Pair("stripe", LocalStripe),
    Pair("paypal", PayPalPeer),
)


def pairs(*needed: Ability) -> pytest.MarkDecorator:
    """Collects a test once for every pair whose peer has these abilities; the test uses `peer` or `gateway`."""
    return pytest.mark.parametrize("pair", [each for each in PAIRS if each.peer.abilities.issuperset(needed)], ids=str)


def faults(chosen: Callable[[type[Peer]], Iterable[str]]) -> pytest.MarkDecorator:
    """Collects a test once for every fault that is chosen of a peer's tables; the test uses `peer` and `fault`."""
    cases = [(pair, fault) for pair in PAIRS for fault in chosen(pair.peer)]
    return pytest.mark.parametrize(("pair", "fault"), cases, ids=str)
