"""What histories tell whoever reads them: where a call stands, where its page is, and how to find it."""

import re
from datetime import UTC, datetime
from typing import Any

import pytest
from temporalio.api.sdk.v1 import WorkflowMetadata

from runtime.healing import Healer
from schemas.calls import Progress
from schemas.codes import Code
from tests.docs.written import ROOT
from tests.service import Service, Started, until
from workflows.telling import details_of, standing

NOW = datetime(2026, 11, 30, 17, 0, tzinfo=UTC)
LATER = datetime(2026, 12, 1, 17, 0, tzinfo=UTC)
REQUEST_ID, APPROVAL_ID = f"act_{'5' * 32}", f"apr_{'6' * 32}"
GUIDE = ROOT / "docs" / "how-to" / "read-histories.md"
on_the_session = pytest.mark.asyncio(loop_scope="session")


def progress(next_: Any, status: Any, **more: Any) -> Progress:
    return Progress(request_id=REQUEST_ID, next=next_, status=status, code=more.pop("code", Code.IN_PROGRESS), **more)


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (
            progress("hold", "pending_approval", approval_id=APPROVAL_ID, expires_at=LATER),
            f"Waiting for a person: approval `{APPROVAL_ID}`. The deadline was 2026-12-01 17:00:00 UTC when this was"
            " last asked.",
        ),
        (progress("execute", "in_progress"), "Allowed: the effect is on its way."),
        (
            progress("inspect", "outcome_unknown", after_seconds=90),
            "The outcome is not known. It is being looked up next at 2026-11-30 17:01:30 UTC.",
        ),
        (progress("inspect", "outcome_unknown"), "The outcome is not known. It is being looked up."),
        (
            progress("settled", "executed", code=Code.OK, recheck_at=LATER),
            "Settled: `executed`, `OK`. Its effect is looked at again from 2026-12-01 17:00:00 UTC on.",
        ),
        (progress("settled", "refused", code=Code.ORDER_NOT_FOUND), "Settled: `refused`, `ORDER_NOT_FOUND`."),
    ],
)
def test_it_is_said_where_a_call_stands(at: Progress, said: str) -> None:
    assert standing(at, NOW) == said


def test_details_lead_to_the_page_of_the_call() -> None:
    assert details_of("https://example.com/", REQUEST_ID) == (
        f"Call [`{REQUEST_ID}`](https://example.com/calls/{REQUEST_ID})"
    )


async def current(service: Service, started: Started) -> str:
    metadata = await started.handle.query("__temporal_workflow_metadata", result_type=WorkflowMetadata)
    return metadata.current_details


@on_the_session
async def test_the_current_details_follow_a_call(running: Service) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))

    async def waiting() -> str | None:
        said = await current(running, started)
        return said if said.startswith("Waiting") else None

    said = await until(waiting)
    assert said == (
        f"Waiting for a person: approval `{approval.approval_id}`. The deadline was"
        f" {approval.expires_at:%Y-%m-%d %H:%M:%S} UTC when this was last asked."
    )
    await started.handle.signal("decide", running.decision(approval, "approve"))
    record = await running.finish(started)
    assert await current(running, started) == f"Settled: `executed`, `OK`.{_again(record.recheck_at)}"


def _again(at: datetime | None) -> str:
    return f" Its effect is looked at again from {at:%Y-%m-%d %H:%M:%S} UTC on." if at else ""


@on_the_session
async def test_a_call_that_was_started_again_leads_to_its_page_too(running: Service) -> None:
    core = running.core
    started, _ = await running.parked(await running.outside.order(50_000))
    await started.handle.terminate()
    healer = Healer(
        core.ledger,
        core.temporal,
        core.catalog,
        running.services.task_queue,
        public_url="http://counterseal.test",
        settle_seconds=-1,
    )
    await healer.heal()
    described = await running.temporal.get_workflow_handle(started.handle.id).describe()
    assert await described.static_summary() == "issue_refund"
    assert await described.static_details() == details_of("http://counterseal.test", started.request.request_id)
    await running.temporal.get_workflow_handle(started.handle.id).signal("withdraw")


def queries() -> dict[str, str]:
    """Those of the guide, by what they find."""
    section = GUIDE.read_text(encoding="utf-8").split("## Queries worth saving")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| (.+?) \| `(.+)` \|$", section, re.MULTILINE))


@on_the_session
async def test_every_query_of_the_guide_is_one_and_finds_what_it_says(running: Service) -> None:
    started, approval = await running.parked(await running.outside.order(50_000))
    listed = queries()
    assert len(listed) > 8
    listed["of one run"] = f'AgentRunId = "{started.request.run_id}"'
    listed["of one approval"] = f'ApprovalId = "{approval.approval_id}"'
    listed["held by this policy"] = f'PolicyVersion = "{approval.policy_version}"'
    finds = {
        "waiting for a person",
        "held by a policy that is no longer in force",
        "of one run",
        "of one approval",
        "held by this policy",
    }
    for name, query in listed.items():

        async def found(query: str = query) -> bool | None:
            ids = {each.id async for each in running.temporal.list_workflows(query)}
            return started.handle.id in ids or None

        if name in finds:
            assert await until(found), name
        else:
            assert not await found(), name
    await started.handle.signal("withdraw")
