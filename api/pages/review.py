"""An outcome that nobody knows, settled by an operator: what is known, what they found out, confirmed, recorded."""

import json
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from pydantic import ValidationError
from temporalio.service import RPCError

from api.context import Context, Services
from api.pages.fields import sent_fields
from api.pages.findings import (
    LEAST_EVIDENCE,
    MOST_EVIDENCE,
    Finding,
    Objection,
    leads_to,
    objection_to,
    phrase_of,
    presumed,
    read_finding,
)
from api.pages.forms import Fields, ProtectedForm, matches
from api.pages.operations import only_operators
from api.pages.rendering import render
from api.pages.routing import READS, PageError, page_router
from api.pages.story import message_of, settled_by
from api.pages.unsettled import alert_told, looks, reason_told
from api.pages.views import workflow_url
from api.sessions import SignedIn
from ledger.calls import UnknownCall
from ledger.principals import Person
from ledger.records import CallRecord
from ledger.reviews import Conclusion, Settled
from schemas.effects import AlertKind, Effect
from schemas.ids import is_request_id
from tools.catalog import Entry
from tools.protocol import WriteArguments, WriteTool

router = page_router()

_MOST_LOOKS = 30
_BLANK: Fields = {"happened": "", "remote_id": "", "evidence": ""}
_NOTHING = PageError(
    HTTPStatus.NOT_FOUND,
    "There is no such outcome",
    "Nothing was sent for that request, or it was never asked for here. What needs review is listed under Operations.",
)
_NO_TOOL = PageError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The tool of this call is not installed here",
    "Nothing was changed. Give this service the tool that the call was made with, and open the page again.",
)


@dataclass(frozen=True, slots=True)
class Case:
    """A call whose effect was sent; `title` is the action in plain words."""

    title: str
    record: CallRecord
    effect: Effect
    entry: Entry
    tool: WriteTool[Any, Any, Any]
    arguments: WriteArguments


@dataclass(frozen=True, slots=True)
class Notice:
    """Why nothing was recorded."""

    status: HTTPStatus
    sentence: str
    about: str = ""


_SETTLED = Notice(
    HTTPStatus.CONFLICT,
    "Somebody settled this before you, or it was found out meanwhile. How it stands is shown below.",
)
_CHANGED = Notice(
    HTTPStatus.CONFLICT,
    "What is known of it has changed since you opened the page. Read it again, then settle it.",
)


@router.api_route("/operations/review/{request_id}", methods=READS)
async def review(request: Request, services: Services, person: SignedIn, request_id: str) -> Response:
    only_operators(person)
    return await _show(request, services, person, await _find(services, person, request_id))


@router.post("/operations/review/{request_id}")
async def settle(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, request_id: str
) -> Response:
    """The finding, and with it or after it the confirmation: everything is checked each time as if it were the first.

    Only a finding that carries its confirmation is recorded.
    """
    only_operators(person)
    case = await _find(services, person, request_id)
    if case.record.review is None:
        return await _show(request, services, person, case, _SETTLED)
    if not matches(form.get("because", ""), case.record.review):
        return await _show(request, services, person, case, _CHANGED, form)
    finding = read_finding(form)
    objection = finding if isinstance(finding, Objection) else await _objection(services, person, case, finding)
    if objection is not None or isinstance(finding, Objection):
        return await _show(request, services, person, case, _refused(objection), form)
    if "confirmation" not in form:
        return _confirm(request, person, case, finding)
    phrase = phrase_of(case.effect)
    if not matches(form["confirmation"].strip(), phrase.text):
        sentence = f"That is not the {phrase.name}. Type it as it is shown."
        return _confirm(request, person, case, finding, Notice(HTTPStatus.UNPROCESSABLE_ENTITY, sentence))
    if await _conclude(services, person, case, finding) is Settled.NOT_IN_REVIEW:
        return await _show(request, services, person, await _find(services, person, request_id), _SETTLED)
    # A call that is open looks by itself in time; told now, it ends now. Nothing is lost when it cannot be told.
    with suppress(RPCError):
        await services.temporal.get_workflow_handle(case.record.workflow_id).signal("look")
    return RedirectResponse(f"/operations/review/{request_id}", HTTPStatus.SEE_OTHER)


async def _find(services: Context, person: Person, request_id: str) -> Case:
    if not is_request_id(request_id):
        raise _NOTHING
    try:
        record = await services.ledger.of(person.tenant).calls.read(request_id)
    except UnknownCall:
        raise _NOTHING from None
    effect, entry = record.details.effect, services.catalog.get(record.tool)
    if effect is None:
        raise _NOTHING
    if entry is None or not isinstance(entry.tool, WriteTool):
        raise _NO_TOOL
    arguments = services.catalog.validate_arguments(record.tool, record.details.call.arguments)
    if not isinstance(arguments, WriteArguments):
        raise _NO_TOOL
    title = await _title(services, record, entry, arguments)
    return Case(title, record, effect, entry, entry.tool, arguments)


async def _title(services: Context, record: CallRecord, entry: Entry, arguments: WriteArguments) -> str:
    """As the approver read it, or would have."""
    if record.approval_id is not None:
        approval = await services.ledger.of(record.tenant).approvals.get(record.tenant, record.approval_id)
        if approval is not None:
            return approval.title
    tool: WriteTool[Any, Any, Any] = cast("WriteTool[Any, Any, Any]", entry.tool)
    try:
        facts = tool.facts_model.model_validate_json(json.dumps(record.details.facts))
    except ValidationError:
        return entry.manifest.title
    return tool.title(arguments, facts)


async def _objection(services: Context, person: Person, case: Case, finding: Finding) -> Objection | None:
    """What is wrong with a finding, by itself or because its id already counts for another call."""
    objection = objection_to(finding, case.record)
    if objection is not None or not finding.happened:
        return objection
    other = await services.ledger.of(person.tenant).calls.by_effect(None, finding.remote_id)
    if other is None or other.request_id == case.record.request_id:
        return None
    return Objection(f"That id already counts for the request {other.request_id}. One cannot count twice.", "remote_id")


def _refused(objection: Objection | None) -> Notice | None:
    return objection and Notice(HTTPStatus.UNPROCESSABLE_ENTITY, objection.sentence, objection.about)


async def _conclude(services: Context, person: Person, case: Case, finding: Finding) -> Settled:
    result, done = presumed(finding, case.effect, case.tool, case.arguments)
    if case.record.review is None:
        return Settled.NOT_IN_REVIEW
    conclusion = Conclusion(
        operator=person.username,
        because=case.record.review,
        happened=finding.happened,
        evidence=finding.evidence,
        remote_id=finding.remote_id or None,
        result=result,
        done=done,
    )
    settled, _ = await services.ledger.of(person.tenant).reviews.conclude(case.record.request_id, conclusion)
    return settled


def _confirm(request: Request, person: Person, case: Case, finding: Finding, notice: Notice | None = None) -> Response:
    _, done = presumed(finding, case.effect, case.tool, case.arguments)
    operation = case.entry.manifest.operation
    return render(
        request,
        "review_confirm.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        record=case.record,
        title=case.title,
        finding=finding,
        leads=leads_to(finding, case.record.request_id, case.effect, operation, done),
        phrase=phrase_of(case.effect),
        notice=notice,
    )


async def _show(
    request: Request,
    services: Context,
    person: Person,
    case: Case,
    notice: Notice | None = None,
    form: Fields | None = None,
) -> Response:
    record, operation = case.record, case.entry.manifest.operation
    ledger = services.ledger.of(person.tenant)
    events = await ledger.calls.events(record.request_id)
    seen = looks(events)
    kinds: dict[AlertKind, None] = dict.fromkeys(await ledger.alerts.of(record.request_id))
    if record.review is None:
        kinds.pop("needs_review", None)
    return render(
        request,
        "review.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        record=record,
        binding=record.details.call.binding,
        effect=case.effect,
        tool=case.entry.manifest.title,
        payments=case.entry.manifest.queue == "payments",
        title=case.title,
        why=reason_told(record.review, operation) if record.review else None,
        concluded=settled_by(events),
        message=message_of(record),
        sent=sent_fields(case.effect.target, (*case.tool.untrusted_arguments, *case.entry.manifest.redact)),
        looks=seen[-_MOST_LOOKS:],
        left_out=max(0, len(seen) - _MOST_LOOKS),
        alerts=[alert_told(kind, operation) for kind in kinds],
        notice=notice,
        typed=_BLANK | (form or {}),
        least_evidence=LEAST_EVIDENCE,
        most_evidence=MOST_EVIDENCE,
        temporal_url=workflow_url(services, record.workflow_id),
    )
