"""What calls cost at Temporal is counted right, and the page on sizing says it."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest
from temporalio import activity, workflow
from temporalio.client import Client, WorkflowHandle, WorkflowUpdateFailedError
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from tests.bench.actions import cost
from tests.docs.written import ROOT
from tests.service import PATIENCE
from tests.workflows.paths import PATHS
from workflows.tool_call import CALL_STATUS

_LIMIT = timedelta(seconds=PATIENCE)


@activity.defn
async def fails_first() -> None:
    if activity.info().attempt == 1:
        raise ApplicationError("not yet")


@workflow.defn(sandboxed=False)
class Priced:
    """Does one thing of the price list, by name, for the price of its own start."""

    def __init__(self) -> None:
        self._told = 0

    @workflow.run
    async def run(self, what: str) -> None:
        if what == "timer":
            await workflow.sleep(timedelta(milliseconds=10))
        elif what == "upsert":
            workflow.upsert_search_attributes([CALL_STATUS.value_set("executed")])
        elif what == "patch":
            workflow.patched("example")
        elif what == "activity":
            retries = RetryPolicy(initial_interval=timedelta(milliseconds=10))
            await workflow.execute_activity(fails_first, start_to_close_timeout=_LIMIT, retry_policy=retries)
        elif what == "local activities":
            retries = RetryPolicy(initial_interval=timedelta(milliseconds=10))
            local = [
                workflow.execute_local_activity(fails_first, start_to_close_timeout=_LIMIT, retry_policy=retries)
                for _ in range(3)
            ]
            await asyncio.gather(*local)
        elif what != "nothing":
            await workflow.wait_condition(lambda: self._told == 2)

    @workflow.signal
    def signal(self) -> None:
        self._told += 1

    @workflow.update
    def update(self, right: bool) -> None:
        self._told += 1

    @update.validator
    def _is_right(self, right: bool) -> None:
        if not right:
            raise ApplicationError("refused")


Handle = WorkflowHandle[Priced, None]


async def _signal_twice(handle: Handle) -> None:
    await handle.signal(Priced.signal)
    await handle.signal(Priced.signal)


async def _update_twice(handle: Handle) -> None:
    """And once so that it is rejected, which is billed and leaves nothing behind."""
    await handle.execute_update(Priced.update, True)
    with pytest.raises(WorkflowUpdateFailedError):
        await handle.execute_update(Priced.update, False)
    await handle.execute_update(Priced.update, True)


async def _nothing(handle: Handle) -> None:
    pass


@pytest.fixture
async def client(temporal_server: str) -> Client:
    return await Client.connect(temporal_server)


async def test_every_kind_of_action_is_counted_as_it_is_billed(client: Client) -> None:
    prices: dict[str, tuple[int, Callable[[Handle], Awaitable[None]]]] = {
        "nothing": (0, _nothing),
        "timer": (1, _nothing),
        "upsert": (1, _nothing),
        "patch": (1, _nothing),
        "activity": (2, _nothing),
        "local activities": (1, _nothing),
        "signals": (2, _signal_twice),
        "updates": (2, _update_twice),
    }
    queue, counted = f"costs-{secrets.token_hex(4)}", dict[str, int]()
    async with (
        Worker(client, task_queue=queue, workflows=[Priced], activities=[fails_first]),
        asyncio.timeout(PATIENCE),
    ):
        for what, (_, tell) in prices.items():
            handle = await client.start_workflow(Priced.run, what, id=f"{queue}/{what}", task_queue=queue)
            await tell(handle)
            await handle.result()
            counted[what] = cost((await handle.fetch_history()).events).actions - 1
    assert counted == {what: price for what, (price, _) in prices.items()}


# As the page names them.
_PAGE = {
    "a read; a refund that runs at once in the API (`COUNTERSEAL_EAGER_START`)": ("free", "read"),
    "refused by the policy": ("refused",),
    "approved by a person, and executed": ("approved",),
    "the same by workers without `COUNTERSEAL_EAGER_START`": ("approved_elsewhere",),
    "denied": ("denied",),
    "withdrawn": ("withdrawn",),
    "expired": ("expired",),
    "an answer lost, found at the first look": ("lost_answer",),
    "an answer lost after an approval, found": ("approved_lost_answer",),
    "absent, and sent again": ("resent",),
}


def test_the_page_on_sizing_says_what_each_path_costs() -> None:
    page = (ROOT / "docs" / "sizing.md").read_text(encoding="utf-8")
    rows = [f"| {said} | {PATHS[n].history} | {PATHS[n].actions} |" for said, paths in _PAGE.items() for n in paths]
    assert [row for row in rows if row not in page] == []
    free, approved, denied = (PATHS[name].actions for name in ("free", "approved", "denied"))
    assert f"90 × {free} + 8 × {approved} + 2 × {denied} = {90 * free + 8 * approved + 2 * denied}" in page
