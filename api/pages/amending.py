"""Asking for less than an agent did: a form for the arguments of a call that a person may change while it waits."""

from collections.abc import Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, cast

from fastapi import Request, Response
from fastapi.responses import RedirectResponse
from pydantic import JsonValue

from api.amending import NotAmended, amend, amendable
from api.context import Context, Services
from api.deciding import may_decide
from api.pages.amounts import minor_of
from api.pages.fields import currency_of
from api.pages.forms import Fields, ProtectedForm, text_of
from api.pages.rendering import render
from api.pages.routing import READS, PageError, page_router
from api.pages.text import words
from api.pages.views import decider, find_approval, tool_title
from api.sessions import SignedIn
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.money import Money
from tools.protocol import WriteTool

router = page_router()

MOST_REASON = 2000
_NOT_YOURS = PageError(HTTPStatus.FORBIDDEN, "This is not yours to change", "Nothing was changed.")
_CLOSED = PageError(
    HTTPStatus.CONFLICT, "This no longer waits for anyone", "Nothing was changed. What became of it is on its page."
)
_CLAIMED = PageError(
    HTTPStatus.CONFLICT,
    "Somebody else is reading this",
    "Nothing was changed. Take it over on its page first, or leave it to them.",
)
_FIXED = PageError(
    HTTPStatus.CONFLICT,
    "Nothing of this can be changed",
    "It can be approved as it is, or denied. Nothing was changed.",
)
_SENTENCES: dict[NotAmended, str] = {
    "reason_required": "Say why you change it.",
    "unchanged": "That is what was asked for: change something, or go back and decide it.",
    "invalid": "That is not what the tool takes. Look at the fields again.",
    "takes_more": "That is more than was asked for. Ask for less, or deny it and have more asked for.",
}


@dataclass(frozen=True, slots=True)
class Input:
    """A field of the form. `choices`: what may be chosen; an amount of money is typed, in `currency`."""

    name: str
    label: str
    value: str
    choices: tuple[str, ...] = ()
    currency: str | None = None


@router.api_route("/approvals/{approval_id}/amendment", methods=READS)
async def amendment_form(request: Request, services: Services, person: SignedIn, approval_id: str) -> Response:
    approval = await _waiting(services, person, approval_id)
    return _page(request, services, person, approval)


@router.post("/approvals/{approval_id}/amendment")
async def amendment(
    request: Request, services: Services, person: SignedIn, form: ProtectedForm, approval_id: str
) -> Response:
    approval = await _waiting(services, person, approval_id)
    reason = text_of(form, "reason")
    changes = _changes(services, approval, form)
    if changes is None:
        return _page(request, services, person, approval, form, _SENTENCES["invalid"])
    if len(reason) > MOST_REASON:
        return _page(request, services, person, approval, form, f"The reason is too long: at most {MOST_REASON}.")
    amended = await amend(services, decider(person), approval_id, changes, reason=reason)
    if amended.refused is None:
        return RedirectResponse(f"/approvals/{amended.approval_id}", HTTPStatus.SEE_OTHER)
    if amended.refused == "refused":
        return _page(request, services, person, approval, form, f"The policy does not allow that: {amended.because}.")
    if amended.refused in _SENTENCES:
        return _page(request, services, person, approval, form, _SENTENCES[amended.refused])
    raise _CLAIMED if amended.refused == "claimed" else _CLOSED


async def _waiting(services: Context, person: Person, approval_id: str) -> Approval:
    """An approval that still waits, and that this person may say no to. Raises PageError."""
    approval = await find_approval(services, person, approval_id)
    if not may_decide(decider(person), approval, "deny"):
        raise _NOT_YOURS
    if approval.status != "open":
        raise _CLOSED
    if not amendable(services, approval):
        raise _FIXED
    return approval


def _schema(services: Context, approval: Approval) -> Mapping[str, Any]:
    entry = services.catalog.get(approval.tool)
    if entry is None:
        return {}
    tool = cast("WriteTool[Any, Any, Any]", entry.tool)
    return tool.arguments_model.model_json_schema()["properties"]


def _inputs(services: Context, approval: Approval, form: Fields) -> list[Input]:
    """The fields as they are, or as they were sent."""
    schema, inputs = _schema(services, approval), list[Input]()
    for name in amendable(services, approval):
        value, currency = approval.arguments.get(name), currency_of(approval)
        if name.endswith("_cents") and isinstance(value, int) and currency is not None:
            amount = str(Money(amount=value, currency=currency).decimal)
            inputs.append(Input(name, "Amount", form.get(name, amount), currency=currency))
        else:
            choices = tuple(schema[name].get("enum", ()))
            inputs.append(Input(name, words(name).capitalize(), form.get(name, str(value)), choices))
    return inputs


def _changes(services: Context, approval: Approval, form: Fields) -> dict[str, JsonValue] | None:
    """What the form says, as the tool takes it; None for what is no amount."""
    changes = dict[str, JsonValue]()
    for each in _inputs(services, approval, form):
        value: JsonValue = each.value.strip()
        if each.currency is not None:
            value = minor_of(each.value.strip(), each.currency)
            if value is None:
                return None
        changes[each.name] = value
    return changes


def _page(
    request: Request,
    services: Context,
    person: Person,
    approval: Approval,
    form: Fields | None = None,
    problem: str | None = None,
) -> Response:
    return render(
        request,
        "amendment.html",
        person=person,
        status=HTTPStatus.UNPROCESSABLE_ENTITY if problem else HTTPStatus.OK,
        approval=approval,
        tool=tool_title(services, approval.tool),
        inputs=_inputs(services, approval, form or {}),
        reason=(form or {}).get("reason", ""),
        most_reason=MOST_REASON,
        problem=problem,
    )
