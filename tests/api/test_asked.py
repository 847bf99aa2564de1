"""What a call asks of the database and of systems outside, to the statement: times depend on the machine, these do not.

The page of figures has the table that is expected. Of a process that has been at work: its connections are open, and
what it keeps for a moment it has.
"""

import asyncio
import difflib
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from pydantic import JsonValue

from api.waiting import Waiters
from docs.markdown import table
from ledger.vault import Sealer, Vault
from runtime.assembly import ORDER_SYSTEM
from runtime.stack.postgres import Postgres
from schemas.ids import key_hash, workflow_id
from tests.api.conftest import Api, Tenant, application
from tests.asked import SUMS, Asked
from tests.service import PATIENCE, SANDBOX_KEY, SandboxUrls, fresh_database, refund_arguments, service, until
from tests.workflows.paths import names

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAGE = Path(__file__).parents[2] / "docs" / "performance.md"
Counts = Mapping[str, int]


@dataclass(frozen=True)
class Bench:
    """A tenant of an API with eager start, which is listened to."""

    tenant: Tenant
    of_api: Asked

    @property
    def api(self) -> Api:
        return self.tenant.api

    async def rest(self) -> None:
        """Nobody looks for anyone any more; from here it is counted."""
        waiters: Waiters = self.api.app.state.context.waiters
        if waiters._task is not None and not waiters._task.done():
            waiters._look.set()
            await waiters._task
        self.of_api.clear()

    async def call(self, token: str, tool: str, arguments: dict[str, JsonValue]) -> tuple[dict[str, Any], str]:
        """(the reply, the workflow's id) of a call, once its workflow has ended or waits."""
        await self.rest()
        reply = (await self.api.call(token, arguments, tool)).json()
        key = str(arguments.get("idempotency_key", reply["request_id"]))
        call_id = workflow_id(self.tenant.name, tool, key_hash(key))
        await self.ended(call_id) if reply["status"] != "pending_approval" else await self.waits(call_id)
        return reply, call_id

    async def ended(self, call_id: str) -> None:
        async with asyncio.timeout(PATIENCE):
            await self.api.service.temporal.get_workflow_handle(call_id).result()

    async def waits(self, call_id: str) -> None:
        handle = self.api.service.temporal.get_workflow_handle(call_id)

        async def look() -> bool | None:
            return True if "TIMER_STARTED" in names((await handle.fetch_history()).events) else None

        await until(look)

    async def refund(self, paid: int, amount: int) -> tuple[dict[str, Any], str]:
        """A refund in the first run of a customer of its own."""
        order = await self.api.service.outside.order(paid)
        token = await self.tenant.run(order["customer_id"])
        return await self.call(token, "issue_refund", refund_arguments(order, amount))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def bench(
    postgres_server: Postgres,
    migrated_template: str,
    temporal_server: str,
    sandbox_urls: SandboxUrls,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Bench]:
    folder, of_api = tmp_path_factory.mktemp("asked"), Asked()
    async with AsyncExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        # What a process keeps for a moment, it keeps for as long as this takes.
        patch.setattr("ledger.vault.PERMIT", timedelta(hours=1))
        patch.setattr("ledger.data_keys.KEPT_SECONDS", 3600.0)
        url = await stack.enter_async_context(fresh_database(postgres_server, migrated_template))
        built = await stack.enter_async_context(service(url, temporal_server, sandbox_urls, folder))
        with of_api.within():
            api = await stack.enter_async_context(application(built, temporal_server))
        context = api.app.state.context
        # Who waits looks once, and once more when told to; how often between them is a matter of time.
        patch.setattr(context.waiters, "_poll_seconds", PATIENCE)
        vault = Vault(built.core.ledger.system, Sealer(built.core.master))
        for system in ("sandbox", ORDER_SYSTEM):
            await vault.put(system, SANDBOX_KEY, by="tests")
        yield Bench(await api.tenant(), of_api)


async def _measured(bench: Bench) -> dict[str, Counts]:
    """What each of these asks, by its name. They are done once before, for what comes with a first time."""
    found: dict[str, Counts] = {}
    for _ in range(2):
        order = await bench.api.service.outside.order(50_000)
        token = await bench.tenant.run(order["customer_id"], tools=("issue_refund", "lookup_orders"))
        await bench.call(token, "lookup_orders", {})
        found["a read"] = bench.of_api.counts()
        await bench.call(token, "issue_refund", refund_arguments(order, 2_000))
        found["a refund"] = bench.of_api.counts()
        await bench.refund(10_000, 2_000)
        found["a customer's first"] = bench.of_api.counts()
        await bench.refund(5_000, 6_000)
        found["refused"] = bench.of_api.counts()
        reply, call_id = await bench.refund(50_000, 25_000)
        found["parked"] = bench.of_api.counts()
        await _approve(bench, reply["request_id"])
        await bench.ended(call_id)
        found["approved"] = bench.of_api.counts()
        await bench.rest()
        assert (await bench.api.get(f"/v1/tool-calls/{reply['request_id']}", token)).json()["status"] == "executed"
        found["asked about"] = bench.of_api.counts()
    return found


async def _approve(bench: Bench, request_id: str) -> None:
    listed = await bench.api.get("/v1/approvals", bench.tenant.approver_token, params={"limit": 500})
    (approval,) = (each for each in listed.json()["approvals"] if each["request_id"] == request_id)
    await bench.rest()
    decision = {"decision": "approve", "action_digest": approval["action_digest"]}
    path = f"/v1/approvals/{approval['approval_id']}/decision"
    assert (await bench.api.post(path, bench.tenant.approver_token, json=decision)).status_code == 200


def _table(found: Mapping[str, Counts]) -> str:
    every = {name for counts in found.values() for name in counts}
    queries, outside = (sorted(n for n in every - {*SUMS} if (" /" in n) == far) for far in (False, True))
    rows = [(f"`{n}`", *(str(counts.get(n) or "") for counts in found.values())) for n in (*queries, *SUMS, *outside)]
    return table(("asked", *found), rows)


async def test_what_is_asked_is_what_the_page_of_figures_says(bench: Bench) -> None:
    """Fewer is better, and the page says it. More needs a reason."""
    measured = _table(await _measured(bench)).splitlines()
    page = PAGE.read_text()
    written = next((block for block in page.split("\n\n") if block.startswith("| asked | ")), "").splitlines()
    changed = "\n".join(difflib.unified_diff(written, measured, PAGE.name, "measured", lineterm="", n=0))
    assert not changed, f"a call asks for something else than docs/performance.md says; are more worth it?\n{changed}"
