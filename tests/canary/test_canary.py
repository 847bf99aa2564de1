"""Every secret, at every stage, in every sink: nothing of it comes out, and operators can still tell what happened."""

from urllib.parse import quote

import pytest

from tests.canary import collecting, matrix, sinks
from tests.canary.conftest import Watched
from tests.canary.planted import Search
from tests.canary.probes import Probe
from tests.canary.sinks import Content, Leak, Sink
from tests.canary.stages import STAGES, Stage

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def gather(watched: Watched, probes: list[Probe], printed: str) -> dict[Sink, list[Content]]:
    """Everything that there is to search. Pages come before the rows and logs that they leave."""
    world = watched.world
    posts, gets = collecting.replies(probes)
    accounts = [content for probe in probes for content in await collecting.accounts(world, probe)]
    pages = await collecting.pages(world, probes)
    workflows = [probe.workflow_id for probe in probes if probe.workflow_id is not None]
    measured = sinks.of_response("/metrics", await world.api.get("/metrics"))
    assert measured.content.startswith(b"200")
    return {
        "POST": posts,
        "GET": gets,
        "logs": [*watched.logs.take(), Content("printed", printed.encode())],
        "spans": watched.spans.take(),
        "metrics": [*watched.metrics.take(), measured],
        "histories": await sinks.histories(world.undecoded, workflows),
        "database": await world.database.take(),
        "pages": pages,
        "accounts": accounts,
    }


async def test_the_secrets_are_where_they_belong(watched: Watched) -> None:
    """Otherwise nothing could come out."""
    world, planted = watched.world, watched.world.planted
    order = await world.shop.order()
    headers = {"Authorization": f"Bearer {planted.store_key.text}"}
    read = await world.outside.get(
        f"{world.settings.store_url}/orders/{order['order_id']}", params={"expand": "customer"}, headers=headers
    )
    assert read.json()["customer"]["email"] == planted.email.text
    for key, status in ((planted.gateway_key.text, 200), (planted.store_key.text, 401)):
        path = f"{world.settings.sandbox_gateway_url}/v1/charges/{order['payments'][0]['payment_id']}"
        assert (await world.outside.get(path, headers={"Authorization": f"Bearer {key}"})).status_code == status
    assert quote(planted.password.text, safe="") in world.settings.database_url.get_secret_value()
    assert await world.database.connected("canary_%") > 0


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
async def test_nothing_comes_out(watched: Watched, stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    world = watched.world
    probes = await stage.play(world)
    assert {probe.expected for probe in probes} == set(stage.codes)
    for probe in probes:
        collecting.check_reply(probe)
    contents = await gather(watched, probes, "".join(capfd.readouterr()))
    search = Search([*world.planted.every(), *(probe.run_token for probe in probes if probe.run_token)])
    found: list[Leak] = [leak for sink in sinks.SINKS for leak in sinks.leaks(search, sink, contents[sink])]
    watched.played[stage.name] = found
    empty = {sink for sink in matrix.searched(stage) if not contents[sink]}
    assert not empty, f"nothing was there to search in {', '.join(sorted(empty))}"
    assert not found, f"{stage.name}:\n" + "\n".join(sorted({str(leak) for leak in found}))
