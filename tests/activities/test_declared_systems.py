"""A tool exchanges with the systems that its manifest names, and with no others, at every step of a call."""

import dataclasses
from typing import Any, cast

import pytest

from gateways import egress
from gateways.protocols import OrderSystem, PaymentGateway, Systems
from schemas.codes import Code
from tests.activities.desk import Desk
from tests.service import Service, systems_of
from tools.catalog import Catalog

pytestmark = pytest.mark.asyncio(loop_scope="session")


@pytest.fixture
def desk(wired: Service) -> Desk:
    return Desk(wired)


@pytest.mark.parametrize("systems", [("orders",), ("payments",), ()])
async def test_what_the_manifest_does_not_name_is_not_reached(desk: Desk, systems: tuple[str, ...]) -> None:
    order = await desk.service.outside.order()
    entries = [
        dataclasses.replace(entry, manifest=entry.manifest.model_copy(update={"egress": systems}))
        for entry in desk.service.services.catalog.all()
    ]
    confined = Desk(desk.service.elsewhere(catalog=Catalog(entries)))
    record = await desk.record((await confined.refund(order, 100)).request_id)
    assert (record.status, record.code) == ("failed", Code.NETWORK_UNREACHABLE)
    assert await desk.service.outside.effects(order) == []


class Watched:
    """A remote system that notes what may be reached while it is used."""

    def __init__(self, system: Any, noted: dict[str, frozenset[str] | None]) -> None:
        self._system, self._noted = system, noted

    def __getattr__(self, name: str) -> Any:
        if callable(found := getattr(self._system, name)):
            self._noted[name] = egress._declared.get()
        return found


async def test_every_step_holds_a_tool_to_its_manifest(desk: Desk) -> None:
    noted: dict[str, frozenset[str] | None] = {}
    real = systems_of(desk.service.services)
    payments, orders = Watched(real.payments, noted), Watched(real.orders, noted)
    systems = Systems(cast(PaymentGateway, payments), cast(OrderSystem, orders), real.helpdesk)
    watched = Desk(desk.service.elsewhere(systems=systems))
    order = await desk.service.outside.order()
    progress = await watched.refund(order, 100)
    await watched.recheck(progress.request_id)
    assert (await desk.record(progress.request_id)).status == "executed"
    both = frozenset({"payments", "orders"})
    assert noted == dict.fromkeys(["order", "payment", "refund", "find_refund"], both)
