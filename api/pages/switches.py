"""Kill switches, turned by an operator: what is off, what turning one would stop or give back, confirmed, then done.

What these pages ask of the ledger goes over the connection that is kept free for switches.
"""

from dataclasses import dataclass
from http import HTTPStatus
from typing import cast, get_args

from fastapi import Request, Response
from fastapi.responses import RedirectResponse

from api.context import Context, Services
from api.pages.coverage import BY_ID, choices, comes_back, in_words, off_rows, state_of, stops, tools_under
from api.pages.forms import Fields, ProtectedForm
from api.pages.operations import only_operators
from api.pages.rendering import render
from api.pages.routing import READS, PageError, Text, page_router
from api.reach import NotYoursError, reach_of, reaches
from api.sessions import SignedIn
from ledger.principals import Person
from ledger.switches import Covered
from schemas.ids import new_request_id
from schemas.replies import Explanation, reply_for
from schemas.switches import EVERYONE, Deadlines, Switch, SwitchOff, code_of, parse

router = page_router()

PATH = "/operations/switches"
MOST_REASON = 500
_BLANK: Fields = {"switch": "", "id": "", "reason": "", "deadlines": "run"}

_NOT_YOURS = PageError(
    HTTPStatus.FORBIDDEN,
    "That switch is not yours to turn",
    "Nothing was changed. You act for your own organisation; what covers everyone is turned by who runs the service.",
)
_NEITHER = PageError(HTTPStatus.UNPROCESSABLE_ENTITY, "That is neither on nor off", "Nothing was changed.")
_NOT_OFF = PageError(
    HTTPStatus.NOT_FOUND, "That switch is not off", "There is nothing to turn on. What is off is listed under Switches."
)


@dataclass(frozen=True, slots=True)
class Notice:
    """Why nothing was changed, and which field it is about."""

    status: HTTPStatus
    sentence: str
    about: str = ""


_CHANGED = Notice(
    HTTPStatus.CONFLICT, "It was turned by somebody else since you opened the page. How it stands is shown below."
)
_ON_ALREADY = Notice(HTTPStatus.CONFLICT, "It is on already: somebody turned it on before you.")


@dataclass(frozen=True, slots=True)
class Wanted:
    """A switch to turn off, and how."""

    switch: Switch
    reason: str
    deadlines: Deadlines

    @property
    def name(self) -> str:
        return str(self.switch)


@router.api_route(PATH, methods=READS)
async def switches(
    request: Request,
    services: Services,
    person: SignedIn,
    on: str | None = None,
    agent: Text = "",
) -> Response:
    """What is off and a form to turn more off, filled in for `agent`; with `on` what turning that switch on would give
    back."""
    only_operators(person)
    if on is None:
        return await _show(request, services, person, form={"switch": "agent", "id": agent} if agent else None)
    found = await _turnable(services, person, on)
    if found is None:
        raise _NOT_OFF
    return await _ask_to_turn_on(request, services, person, found)


@router.post(PATH)
async def turn(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    """Turn one off (shown first, then confirmed) or on."""
    only_operators(person)
    match form.get("turn"):
        case "off":
            return await _turn_off(request, services, person, form)
        case "on":
            return await _turn_on(request, services, person, form)
        case _:
            raise _NEITHER


async def _turn_off(request: Request, services: Context, person: Person, form: Fields) -> Response:
    wanted = _read(services, person, form)
    if isinstance(wanted, Notice):
        return await _show(request, services, person, wanted, form)
    current = await _own(services, person, wanted.name)
    if "confirmed" not in form:
        return await _confirm(request, services, person, wanted, current)
    # The very same again, such as a second click on the button, changes nothing and is acknowledged alike.
    if form.get("seen", "") != state_of(current) and not _is_done(wanted, current, person):
        return await _confirm(request, services, person, wanted, current, _CHANGED)
    await services.ledger.switches.turn_off(
        person.tenant, wanted.name, by=person.username, reason=wanted.reason, deadlines=wanted.deadlines
    )
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


async def _turn_on(request: Request, services: Context, person: Person, form: Fields) -> Response:
    name, reason = form.get("switch", ""), _reason(form)
    current = await _turnable(services, person, name)
    if current is None:
        return await _show(request, services, person, _ON_ALREADY)
    if form.get("seen", "") != state_of(current):
        return await _ask_to_turn_on(request, services, person, current, _CHANGED, reason)
    if objection := _objection_to(reason, "Say why you turn it on."):
        return await _ask_to_turn_on(request, services, person, current, objection, reason)
    reach_of = reaches(services.catalog)
    if not await services.ledger.switches.turn_on(person.tenant, name, reach_of, by=person.username, reason=reason):
        return await _show(request, services, person, _ON_ALREADY)
    return RedirectResponse(PATH, HTTPStatus.SEE_OTHER)


def _read(services: Context, person: Person, form: Fields) -> Wanted | Notice:
    """What the form asks to turn off. Raises PageError for a switch that is not this person's to turn."""
    chosen, identity, reason = form.get("switch", ""), form.get("id", "").strip(), _reason(form)
    if not chosen:
        return _wrong("Say what to turn off.", "switch")
    if chosen in BY_ID and not identity:
        return _wrong(f"Give the id of the {chosen}.", "id")
    if chosen not in BY_ID and identity:
        return _wrong("An id is only for one agent or one run: choose that, or leave the id out.", "id")
    try:
        switch = parse(f"{chosen}:{identity}" if chosen in BY_ID else chosen)
    except ValueError:
        about = "id" if chosen in BY_ID else "switch"
        return _wrong("That cannot be turned off: an id has up to 200 letters, digits and signs.", about)
    try:
        reach_of(switch, person.tenant, services.catalog)
    except NotYoursError:
        raise _NOT_YOURS from None
    if switch.kind == "tool" and services.catalog.get(switch.value) is None:
        return _wrong("There is no such tool here.", "switch")
    deadlines = form.get("deadlines")
    if deadlines not in get_args(Deadlines):
        return _wrong("Say what becomes of the deadlines of calls that wait.", "deadlines")
    return _objection_to(reason, "Say why you turn it off.") or Wanted(switch, reason, cast("Deadlines", deadlines))


def _reason(form: Fields) -> str:
    return form.get("reason", "").replace("\r\n", "\n").strip()


def _objection_to(reason: str, missing: str) -> Notice | None:
    if not reason:
        return _wrong(missing, "reason")
    if len(reason) > MOST_REASON:
        return _wrong(f"The reason is too long: at most {MOST_REASON} characters.", "reason")
    return None


def _wrong(sentence: str, about: str) -> Notice:
    return Notice(HTTPStatus.UNPROCESSABLE_ENTITY, sentence, about)


def _is_done(wanted: Wanted, current: SwitchOff | None, person: Person) -> bool:
    asked = (person.username, wanted.reason, wanted.deadlines)
    return current is not None and (current.off_by, current.reason, current.deadlines) == asked


async def _own(services: Context, person: Person, name: str) -> SwitchOff | None:
    """The switch of this name when it is off for the person's tenant."""
    off = await services.ledger.switches.off(person.tenant)
    return next((each for each in off if (each.tenant, each.name) == (person.tenant, name)), None)


async def _turnable(services: Context, person: Person, name: str) -> SwitchOff | None:
    """The same; raises PageError for one that is off for everyone alone."""
    off = [each for each in await services.ledger.switches.off(person.tenant) if each.name == name]
    own = next((each for each in off if each.tenant == person.tenant), None)
    if own is None and off:
        raise _NOT_YOURS
    return own


async def _covered(services: Context, person: Person, switch: Switch) -> Covered:
    return await services.ledger.switches.covered(reach_of(switch, person.tenant, services.catalog))


async def _show(
    request: Request, services: Context, person: Person, notice: Notice | None = None, form: Fields | None = None
) -> Response:
    off = await services.ledger.switches.off(person.tenant)
    return render(
        request,
        "switches.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        rows=off_rows(off, person.tenant, services.catalog),
        everyone=EVERYONE,
        choices=choices(services.catalog),
        typed=_BLANK | (form or {}),
        notice=notice,
        most_reason=MOST_REASON,
    )


async def _confirm(
    request: Request,
    services: Context,
    person: Person,
    wanted: Wanted,
    current: SwitchOff | None,
    notice: Notice | None = None,
) -> Response:
    return render(
        request,
        "switch_off.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        wanted=wanted,
        words=in_words(wanted.name, services.catalog),
        tools=tools_under(wanted.name, services.catalog),
        stops=stops(await _covered(services, person, wanted.switch), wanted.name),
        code=code_of(wanted.name),
        told=reply_for(code_of(wanted.name), new_request_id(), Explanation()).message,
        current=current,
        seen=state_of(current),
        notice=notice,
    )


async def _ask_to_turn_on(
    request: Request,
    services: Context,
    person: Person,
    current: SwitchOff,
    notice: Notice | None = None,
    reason: str = "",
) -> Response:
    others = [each for each in await services.ledger.switches.off(person.tenant) if each != current]
    (row,) = off_rows([current], person.tenant, services.catalog)
    return render(
        request,
        "switch_on.html",
        person=person,
        status=notice.status if notice else HTTPStatus.OK,
        row=row,
        tools=tools_under(current.name, services.catalog),
        comes_back=comes_back(await _covered(services, person, parse(current.name)), current),
        others=off_rows(others, person.tenant, services.catalog),
        reason=reason,
        notice=notice,
        most_reason=MOST_REASON,
    )
