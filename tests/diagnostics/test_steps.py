"""The account that a step of a call leaves when it ends badly: complete, true, unreadable in the table."""

import dataclasses
import socket
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
import pytest_asyncio
from pydantic import SecretStr
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from activities.admitting import Admission
from activities.closing import Closing
from activities.decisions import Decisions
from activities.effects import Effects
from activities.inspecting import Inspecting
from api.pages.diagnosis import tell
from gateways.client import new_client
from gateways.protocols import PaymentGateway, RefundRequest, Systems
from gateways.registry import Endpoint, payment_gateway
from schemas.calls import CallRef, ExecuteRequest, Progress, ToolCallInput
from schemas.codes import Code
from schemas.diagnostics import BOUNDARIES, Diagnostic
from schemas.effects import Attempt, Inspection
from schemas.events import DiagnosticOpened
from schemas.facts import Payment, Refund
from tests import loopback
from tests.diagnostics.remotes import (
    HTML,
    MALFORMED,
    Handler,
    echo_authorization,
    free_port,
    never_answer,
    reset_after_reading,
    serving,
    untrusted_tls,
)
from tests.service import Service, refund_arguments, systems_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

KEY = "sk_example_very_secret"
NOTE = "The lamp came broken, writes Ada Example"
OPENED = DiagnosticOpened(principal="olga", through="page")
ALL = list(BOUNDARIES)
AUTHORISED = ["input_validated", "credential_selected", "authorised"]
SENT = [*AUTHORISED, "connection_started", "bytes_sent"]


@dataclass
class HalfHostile:
    """A gateway whose facts are the sandbox's, and whose refunds go to a system that fails."""

    facts: PaymentGateway
    refunding: PaymentGateway

    name: str = "stripe"
    key_validity: timedelta = timedelta(hours=24)

    async def payment(self, payment_id: str) -> Payment | None:
        return await self.facts.payment(payment_id)

    async def refunds(self, payment_id: str) -> Sequence[Refund]:
        return await self.facts.refunds(payment_id)

    async def refunds_between(self, since: datetime, until: datetime) -> Sequence[Refund] | None:
        return await self.facts.refunds_between(since, until)

    async def refund(self, request: RefundRequest) -> Attempt:
        return await self.refunding.refund(request)

    async def find_refund(self, request: RefundRequest) -> Inspection:
        return await self.refunding.find_refund(request)


@dataclass(frozen=True)
class Desk:
    """The activities of a service, called as a worker calls them."""

    service: Service

    @property
    def effects(self) -> Effects:
        return Effects(self.service.services, Decisions(self.service.services))

    async def admit(self, request: ToolCallInput, workflow_id: str, *, attempt: int = 1) -> Progress:
        admission = Admission(self.service.services, self.effects)
        return await _environment(workflow_id, attempt).run(admission.admit, request)

    async def refund(self, amount: int = 4_000, **changes: Any) -> Progress:
        order = await self.service.outside.order(50_000, **changes)
        return await self.admit(*await self.service.proposal(order, amount, note=NOTE))

    async def execute(self, request_id: str, **more: Any) -> Progress:
        request = ExecuteRequest(request_id=request_id, **more)
        return await (await self.within(request_id)).run(self.effects.execute, request)

    async def inspect(self, request_id: str) -> Progress:
        return await (await self.within(request_id)).run(
            Inspecting(self.service.services, self.effects).inspect, CallRef(request_id=request_id)
        )

    async def within(self, request_id: str) -> ActivityEnvironment:
        """Where activities of the call's workflow run."""
        return _environment((await self.service.core.ledger.calls.read(request_id)).workflow_id)

    async def read(self, request_id: str) -> list[Diagnostic]:
        return await self.service.core.ledger.diagnostics.open(request_id, OPENED, tenant=None)

    async def only(self, request_id: str) -> Diagnostic:
        (found,) = await self.read(request_id)
        return found

    def against(self, base: str, *, deadline: float = 5.0) -> "Desk":
        """The same, with refunds sent to the system at `base`."""
        endpoint = Endpoint(base, SecretStr(KEY), deadline, credential_id="settings:example_key")
        systems = systems_of(self.service.services)
        hostile = payment_gateway("stripe", endpoint, _CLIENT["client"], loopback.egress(base))
        return self.with_systems(dataclasses.replace(systems, payments=HalfHostile(systems.payments, hostile)))

    def with_systems(self, systems: Systems) -> "Desk":
        return Desk(self.service.elsewhere(systems=systems))


def _environment(workflow_id: str, attempt: int = 1) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, workflow_id=workflow_id, attempt=attempt)
    return environment


_CLIENT: dict[str, Any] = {}


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def _client() -> AsyncIterator[None]:
    async with new_client() as client:
        _CLIENT["client"] = client
        yield


@pytest.fixture
def desk(wired: Service, _client: None) -> Desk:
    return Desk(wired)


@pytest_asyncio.fixture(loop_scope="session")
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


def reached(diagnostic: Diagnostic) -> list[str]:
    return [mark.name for mark in diagnostic.marks]


def text(diagnostic: Diagnostic) -> str:
    told = tell(diagnostic)
    return " ".join([told.headline, *told.sentences])


def says(diagnostic: Diagnostic, *parts: str) -> None:
    """The account says these things, in this order."""
    said, place = text(diagnostic), 0
    for part in parts:
        assert part in said[place:], (part, said)
        place = said.index(part, place)


async def unreadable(desk: Desk, request_id: str) -> None:
    """Nothing of what was kept can be read in the table."""
    rows = await desk.service.core.ledger.system.fetch("SELECT * FROM diagnostics WHERE request_id = $1", request_id)
    assert rows
    for row in rows:
        for part in (b"payments", b"input_validated", b"127.0.0.1", b"Traceback", b"refund", b"settings:", b"policy"):
            assert part not in row["body"]


async def test_a_refusal_by_the_policy(desk: Desk) -> None:
    order = await desk.service.outside.order(10_000)
    ended = await desk.admit(*await desk.service.proposal(order, 10_001, note=NOTE))
    assert ended.code is Code.REFUND_EXCEEDS_PAID
    found = await desk.only(ended.request_id)
    assert reached(found) == ["input_validated"]
    assert (found.step, found.status, found.code) == ("admit", "refused", Code.REFUND_EXCEEDS_PAID)
    assert {each.purpose for each in found.exchanges} == {"facts"}
    assert {each.system for each in found.exchanges} == {"orders", "payments"}
    assert {each.credential_id for each in found.exchanges} == {"settings:store_key", "settings:sandbox_gateway_key"}
    assert NOTE not in found.model_dump_json()
    says(
        found,
        "issue_refund: deciding the call – refused (REFUND_EXCEEDS_PAID)",
        "Its input was valid.",
        "The policy default@",
        "It was not authorised to change anything, so nothing was sent that could.",
        "To read the facts: GET http://127.0.0.1:",
        "HTTP 200 came after",
        "Nothing was sent that could change anything.",
        "The caller was told: “Order ord_",
    )
    await unreadable(desk, ended.request_id)


async def test_a_refusal_on_the_facts(desk: Desk) -> None:
    order, own = await desk.service.outside.order(), await desk.service.outside.order()
    run = await desk.service.open_run(own["customer_id"])
    ended = await desk.admit(*await desk.service.input_for(run.run_id, refund_arguments(order, 1_000)))
    found = await desk.only(ended.request_id)
    assert (found.code, reached(found)) == (Code.ORDER_NOT_FOUND, ["input_validated"])


async def test_a_read_that_is_refused_was_authorised_and_answered(desk: Desk) -> None:
    order, own = await desk.service.outside.order(), await desk.service.outside.order()
    run = await desk.service.open_run(own["customer_id"], tools=("get_refund_history", "lookup_orders"))
    asked = {"order_id": order["order_id"]}
    ended = await desk.admit(*await desk.service.input_for(run.run_id, asked, "get_refund_history"))
    assert ended.status == "refused"
    found = await desk.only(ended.request_id)
    assert reached(found) == [*SENT, "response_received"]
    says(found, "It was authorised.", "To answer it: GET ")


async def test_facts_that_cannot_be_read(desk: Desk) -> None:
    order = await desk.service.outside.order()
    await desk.service.outside.fault("503", order, operation="get", times=3)
    ended = await desk.admit(*await desk.service.proposal(order, 1_000))
    found = await desk.only(ended.request_id)
    assert (found.code, found.problem) == (Code.NETWORK_UNREACHABLE, "http_503")
    assert [each.upstream_status for each in found.exchanges].count(503) == 3
    assert reached(found) == ["input_validated"]
    says(found, "HTTP 503 came after", "It ended before anything was sent that could change anything (http 503).")


NEVER = "No byte of it left"
LOST = "Whether the other system acted on it cannot be told from this exchange."
LOOKED_UP = "is looked up rather than sent again."


async def test_a_name_that_nobody_knows(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    real = socket.getaddrinfo

    def unknown(host: Any, *more: Any, **named: Any) -> Any:
        if host == "payments.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return real(host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    ended = await desk.against("https://payments.example").refund()
    assert ended.code is Code.NETWORK_UNREACHABLE
    found = await desk.only(ended.request_id)
    assert (reached(found), found.outcome) == ([*AUTHORISED, "connection_started"], "failed")
    says(
        found,
        "It was authorised.",
        "To carry it out: POST https://payments.example:443/v1/refunds (payments) with the credential "
        "settings:example_key.",
        "A connection was begun, but the name of the host could not be resolved: no byte of the request left.",
        "No byte of it left (connect failed): it cannot have happened.",
    )


async def test_a_port_where_nobody_listens(desk: Desk) -> None:
    ended = await desk.against(f"http://127.0.0.1:{free_port()}").refund()
    found = await desk.only(ended.request_id)
    assert reached(found) == [*AUTHORISED, "connection_started"]
    says(found, "the connection was refused: no byte of the request left.", NEVER)


async def test_a_certificate_that_nobody_vouches_for(desk: Desk, stack: AsyncExitStack, tmp_path: Path) -> None:
    base = await stack.enter_async_context(serving(never_answer, untrusted_tls(tmp_path)))
    ended = await desk.against(base).refund()
    assert ended.code is Code.NETWORK_UNREACHABLE
    found = await desk.only(ended.request_id)
    assert reached(found) == [*AUTHORISED, "connection_started"]
    says(found, "the TLS handshake failed: no byte of the request left.", NEVER)
    raised = found.exchanges[-1].exception
    assert raised is not None
    assert "certificate verify failed" in raised.traceback


async def test_a_timeout_before_any_byte(desk: Desk, stack: AsyncExitStack) -> None:
    base = (await stack.enter_async_context(serving(never_answer))).replace("http:", "https:")
    ended = await desk.against(base, deadline=0.3).refund()
    assert ended.code is Code.NETWORK_UNREACHABLE
    found = await desk.only(ended.request_id)
    assert reached(found) == [*AUTHORISED, "connection_started"]
    says(found, "the TLS handshake did not end before the deadline: no byte of the request left.", NEVER)


UNKNOWN: dict[str, tuple[Handler, list[str], tuple[str, ...]]] = {
    "a timeout after the bytes": (never_answer, SENT, ("then no answer came before the deadline.", LOST, LOOKED_UP)),
    "a reset": (reset_after_reading, SENT, ("then the connection was reset before an answer came.", LOST, LOOKED_UP)),
    "malformed JSON": (
        MALFORMED,
        [*SENT, "response_received"],
        ("HTTP 200 came after", "Its body is not the strict JSON that was expected.", LOOKED_UP),
    ),
    "an HTML login page": (
        HTML,
        [*SENT, "response_received"],
        ("HTTP 200 came after", "content-type: text/html", "Its body is not the strict JSON", LOOKED_UP),
    ),
}


@pytest.mark.parametrize("case", UNKNOWN)
async def test_an_outcome_that_is_not_known(desk: Desk, stack: AsyncExitStack, case: str) -> None:
    handler, passed, parts = UNKNOWN[case]
    deadline = 1.5 if handler is never_answer else 10.0
    hostile = desk.against(await stack.enter_async_context(serving(handler)), deadline=deadline)
    ended = await hostile.refund()
    assert ended.code is Code.OUTCOME_UNKNOWN
    found = await desk.only(ended.request_id)
    assert (reached(found), found.outcome, found.status) == (passed, "unknown", "outcome_unknown")
    says(found, "To carry it out: POST http://127.0.0.1:", *parts, "The caller was told: “The remote system's answer")
    assert "Ada Example" not in found.model_dump_json()
    await unreadable(desk, ended.request_id)


async def test_every_look_at_an_unknown_outcome_is_told_and_so_is_its_end(desk: Desk) -> None:
    order = await desk.service.outside.order()
    await desk.service.outside.fault("commit_then_drop", order)
    request_id = (await desk.admit(*await desk.service.proposal(order, 4_000))).request_id
    await desk.service.outside.fault("503", order, operation="list")
    assert (await desk.inspect(request_id)).next == "inspect"
    assert (await desk.inspect(request_id)).code is Code.OK
    sent, first, second = await desk.read(request_id)
    assert (sent.step, first.step, second.step) == ("admit", "inspect", "inspect")
    assert (sent.outcome, first.outcome, second.outcome) == ("unknown", "unknown", "confirmed")
    assert reached(sent) == SENT
    assert reached(first) == [*SENT, "response_received"]
    assert reached(second) == ALL
    says(second, "To look up what became of it: GET ", "it happened.")


async def test_a_failure_that_the_remote_documents(desk: Desk, stack: AsyncExitStack) -> None:
    base = await stack.enter_async_context(serving(echo_authorization))
    ended = await desk.against(base).refund()
    assert ended.code is Code.AUTH_FAILED
    found = await desk.only(ended.request_id)
    assert reached(found) == ALL
    assert KEY not in found.model_dump_json()
    says(
        found, "HTTP 401 came after", "request-id: [credential]", "documents its answer as not done: it did not happen."
    )


class _Bug(Exception):
    """Raised by a tool that is broken."""


def _broken(*_: Any, **__: Any) -> Any:
    raise _Bug("the column holds 4111111111111111")


@pytest.mark.parametrize("when", ["before", "after"])
async def test_our_own_exception_is_kept_raw(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, when: Literal["before", "after"]
) -> None:
    """After the bytes: nobody knows what became of it, and the account says so."""
    monkeypatch.setattr(
        *(("activities.proposals.read_facts", _broken) if when == "before" else ("gateways.stripe.judge", _broken))
    )
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 4_000)
    with pytest.raises(_Bug):
        await desk.admit(request, workflow_id)
    found = await desk.only(request.request_id)
    assert (found.code, found.status, found.workflow_id) == (Code.INTERNAL_FAILURE, None, workflow_id)
    assert found.failure is not None
    assert found.failure.type.endswith("._Bug")
    assert "4111111111111111" in found.failure.traceback
    if when == "before":
        assert reached(found) == ["input_validated"]
        says(found, "Nothing was sent that could change anything.", "What was raised: ", "_Bug")
    else:
        assert reached(found) == [*SENT, "response_received"]
        says(found, "HTTP 200 came after", "whether it happened cannot be told from this.", "_Bug")
    await unreadable(desk, request.request_id)


async def test_a_step_that_breaks_off_again_and_again_is_not_kept_every_time(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("activities.proposals.read_facts", _broken)
    proposal = await desk.service.proposal(await desk.service.outside.order(), 4_000)
    for attempt in range(1, 20):
        with pytest.raises(_Bug):
            await desk.admit(*proposal, attempt=attempt)
    assert [each.attempt for each in await desk.read(proposal[0].request_id)] == [1, 2, 4, 8, 16]


async def test_a_workflow_that_somebody_started_past_the_api(desk: Desk) -> None:
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 4_000)
    with pytest.raises(ApplicationError):
        await desk.admit(request.model_copy(update={"tool": "reinstate_order"}), workflow_id)
    found = await desk.only(request.request_id)
    assert (found.code, found.status, reached(found)) == (Code.TOOL_NOT_AVAILABLE, "refused", [])
    says(found, "Its input was not accepted.", "nothing was sent that could")


async def test_a_run_that_nobody_opened_is_told_to_the_operators_of_the_service(desk: Desk) -> None:
    order = await desk.service.outside.order()
    request, workflow_id = await desk.service.proposal(order, 4_000)
    with pytest.raises(ApplicationError):
        await desk.admit(request.model_copy(update={"run_id": "run_" + "0" * 32}), workflow_id)
    ledger = desk.service.core.ledger
    (found,) = await ledger.of(desk.service.services.tenant).diagnostics.open(
        request.request_id, OPENED, tenant=desk.service.services.tenant
    )
    assert found.problem == "UnknownRun"


async def test_nothing_is_kept_under_the_id_of_another_tenants_call(desk: Desk) -> None:
    order = await desk.service.outside.order()
    first, first_id = await desk.service.proposal(order, 1_000)
    await desk.admit(first, first_id)
    other, other_id = await desk.service.proposal(await desk.service.outside.order(), 1_000)
    with pytest.raises(ApplicationError):
        await desk.admit(other.model_copy(update={"request_id": first.request_id, "tool": "nothing"}), other_id)
    assert await desk.read(first.request_id) == []


async def test_an_approval_that_no_longer_held(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    request, workflow_id = await desk.service.proposal(order, 25_000)
    await desk.admit(request, workflow_id)
    ledger = desk.service.core.ledger
    assert await desk.read(request.request_id) == []
    approval = await desk.service.approval(await ledger.calls.read(request.request_id))
    await desk.service.outside.put_order({**order, "disputed": True})
    token = desk.service.decision(approval, "approve").token
    ended = await desk.execute(request.request_id, approval_id=approval.approval_id, token=token)
    assert ended.code is Code.APPROVAL_VOID
    found = await desk.only(request.request_id)
    assert (found.step, reached(found)) == ("execute", ["input_validated"])
    says(
        found,
        "It was not authorised",
        "To read the facts: GET",
        "Whoever asks is told since: “",
        "the facts have changed",
    )


async def test_facts_that_cannot_be_read_after_the_approval(desk: Desk) -> None:
    order = await desk.service.outside.order(50_000)
    request, workflow_id = await desk.service.proposal(order, 25_000)
    await desk.admit(request, workflow_id)
    approval = await desk.service.approval(await desk.service.core.ledger.calls.read(request.request_id))
    await desk.service.outside.fault("503", order, operation="get", times=3)
    token = desk.service.decision(approval, "approve").token
    await desk.execute(request.request_id, approval_id=approval.approval_id, token=token)
    found = await desk.only(request.request_id)
    assert (found.status, found.problem) == ("in_progress", "http_503")
    says(found, "It ended before anything was sent that could change anything (http 503).")


async def test_a_denial(desk: Desk) -> None:
    request, workflow_id = await desk.service.proposal(await desk.service.outside.order(50_000), 25_000)
    await desk.admit(request, workflow_id)
    approval = await desk.service.approval(await desk.service.core.ledger.calls.read(request.request_id))
    closing = Closing(desk.service.services, Decisions(desk.service.services), desk.effects)
    token = desk.service.decision(approval, "deny", reason="no").token
    asked = ExecuteRequest(request_id=request.request_id, approval_id=approval.approval_id, token=token)
    await (await desk.within(request.request_id)).run(closing.deny, asked)
    found = await desk.only(request.request_id)
    assert (found.step, found.code) == ("deny", Code.USER_DENIED)
    says(found, "issue_refund: taking a person's denial – denied (USER_DENIED)", "Nothing was sent")


async def test_a_call_that_succeeds_leaves_nothing_and_asks_the_database_nothing_for_it(desk: Desk) -> None:
    queries: list[str] = []
    database: Any = desk.service.core.ledger.database
    before = await desk.service.core.ledger.system.fetchval("SELECT count(*) FROM diagnostics")
    with ExitStack() as listening:
        for pool in (database._everyones, database._tenants):
            for connection in [each._con for each in pool._holders if each._con is not None]:
                listening.enter_context(connection.query_logger(lambda said: queries.append(said.query)))
        ended = await desk.refund()
    assert ended.code is Code.OK
    assert any("INSERT INTO calls" in query for query in queries)
    assert not any("diagnostics" in query for query in queries)
    assert await desk.service.core.ledger.system.fetchval("SELECT count(*) FROM diagnostics") == before


async def test_a_diagnostic_that_cannot_be_stored_does_not_stop_the_call(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ledger.diagnostics.Diagnostics.store", _broken)
    order = await desk.service.outside.order(10_000)
    ended = await desk.admit(*await desk.service.proposal(order, 10_001))
    assert (ended.next, ended.code) == ("settled", Code.REFUND_EXCEEDS_PAID)


async def test_opening_it_is_an_event_of_the_call_and_its_chain_goes_on(desk: Desk) -> None:
    order = await desk.service.outside.order(10_000)
    ended = await desk.admit(*await desk.service.proposal(order, 10_001))
    ledger = desk.service.core.ledger
    before = await ledger.calls.read(ended.request_id)
    await desk.read(ended.request_id)
    events = await ledger.calls.events(ended.request_id)
    row, event = events[-1]
    assert (row.type, event) == ("diagnostic.opened", OPENED)
    after = await ledger.calls.read(ended.request_id)
    assert (after.status, after.code, after.reply()) == (before.status, before.code, before.reply())
    assert (after.head.n, after.head.hash) == (row.n, row.hash)
