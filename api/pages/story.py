"""What happened to a call, told from its events; and what became of it after the decision. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from api.pages.text import absolute, words
from ledger.chain import EventRow
from ledger.records import CallRecord
from schemas.codes import REGISTRY
from schemas.decisions import Approval, HumanDecision
from schemas.events import (
    ApprovalDenied,
    ApprovalExtended,
    ApprovalGranted,
    ApprovalRequested,
    ApprovalResumed,
    ApprovalSupported,
    ApprovalViewed,
    ApprovalVoided,
    CallAmended,
    CallCancelled,
    CallDecided,
    CallProposed,
    DiagnosticOpened,
    EffectConfirmed,
    EffectFailed,
    EffectInspected,
    EffectReversed,
    Pruned,
    Recorded,
    ReviewConcluded,
)

Found = Literal["confirmed", "failed", "absent", "unknown"]
# One sentence an event; the names are the event's own fields.
_SENTENCES = {
    "call.proposed": "The agent asked for it",
    "call.decided": "The policy answered “{decision[verdict]}” by the rule {decision[rule]}",
    "approval.requested": "A person of the group {approvers} was asked",
    "approval.viewed": "{viewer} opened the request",
    "approval.granted": "{approver} approved it",
    "approval.supported": "{approver} approved it; another person has to as well",
    "approval.denied": "{approver} denied it",
    "call.amended": "{principal} changed what was asked for",
    "approval.expired": "Nobody decided before the deadline",
    "approval.voided": "The approval no longer held: {because}",
    "decision.rejected": "Something that claimed to be a decision was turned away",
    "effect.intended": "It was about to be sent",
    "effect.confirmed": "The other system confirmed it as {remote_id}",
    "effect.failed": "The other system did not do it ({code})",
    "effect.unknown": "The answer was lost: it may or may not have happened",
    "effect.reversed": "The other system undid it later",
    "review.requested": "Operators were asked to find out what became of it",
    "call.cancelled": "{principal} withdrew it",
    "call.settled": "The call was closed: {status}",
    "limit.hit": "A limit was reached: {limit}",
    "egress.denied": "A request to {system} at {host} was not let out: {because}",
    "diagnostic.opened": "{principal} opened the diagnostics",
}

_FOUND: dict[Found, str] = {
    "confirmed": "It was looked up, and had been done",
    "failed": "It was looked up: the other system does not do it, or undid it",
    "absent": "It was looked up, and was not there",
    "unknown": "It was looked up, and what came back settles nothing",
}

Tone = Literal["good", "bad", "wait", "quiet"]


_PROVEN = {
    "password": "who entered their password again",
    "sign_in": "who signed in again at the provider",
    "passkey": "whose passkey signed it",
}
_US = "Counterseal"


@dataclass(frozen=True, slots=True)
class Happened:
    """One event. `by`: who did it: a person, the agent, the policy, a system outside, or the service."""

    at: datetime
    type: str
    sentence: str
    by: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a call stands after its approval closed. `live`: it is still moving, so look again in a moment."""

    tone: Tone
    headline: str
    sentence: str
    live: bool = False
    successor: str | None = None
    """The approval that asks a person once more, when there is one."""


_SYMBOLS: dict[Tone, str] = {"good": "✓", "bad": "✕", "wait": "…", "quiet": "–"}


def symbol(tone: Tone) -> str:
    """Says the tone without colour."""
    return _SYMBOLS[tone]


def story(events: Sequence[tuple[EventRow, Recorded]]) -> list[Happened]:
    """Every event of a call in order, as sentences."""
    return [Happened(row.at, event.type, _sentence(event), _by(event)) for row, event in events]


def _by(event: Recorded) -> str:
    match event:
        case CallProposed():
            return event.call.binding.agent_id
        case CallDecided():
            return f"policy {event.decision.policy_version}"
        case ApprovalGranted() | ApprovalSupported() | ApprovalDenied():
            proof = f", {_PROVEN[event.proof.kind]}" if event.proof else ""
            return f"{event.approver}{f' for {event.on_behalf_of}' if event.on_behalf_of else ''}{proof}"
        case ApprovalViewed():
            return event.viewer
        case CallAmended() | ApprovalExtended() | CallCancelled() | DiagnosticOpened():
            return event.principal
        case ReviewConcluded():
            return event.operator
        case EffectConfirmed() | EffectFailed() | EffectReversed():
            return f"{event.exchange.system} system" if event.exchange.reached == "response_received" else _US
        case _:
            return _US


def _sentence(event: Recorded) -> str:
    match event:
        case Pruned():
            gone = "erased with its customer" if event.erased else "removed when its time was up"
            return f"{words(event.type.replace('.', '_')).capitalize()}; what it said was {gone}"
        case EffectInspected():
            return _FOUND[event.found]
        case ApprovalExtended():
            return f"{event.principal} gave it more time, until {absolute(event.expires_at)}: {event.reason}"
        case ApprovalResumed():
            return f"{event.switch} was turned on again, which had paused its deadline: {absolute(event.expires_at)}"
        case ReviewConcluded():
            settled = f"it happened, as {event.remote_id}" if event.happened else "it did not happen"
            return f"{event.operator} settled that {settled}: {event.evidence}"
        case _:
            template = _SENTENCES.get(event.type, event.type)
            said = event.model_dump(mode="json")
            if said.get("on_behalf_of"):
                said["approver"] = f"{said['approver']}, for {said['on_behalf_of']},"
            return template.format_map(defaultdict(str, said))


def decision_of(approval: Approval) -> HumanDecision | None:
    """The decision that closed the approval."""
    return approval.decisions[-1] if approval.decisions else None


# What says whether it was done; the last one counts.
_CONCLUSIVE = frozenset({"effect.confirmed", "effect.failed", "effect.reversed", "review.concluded"})
_CLOSED: dict[str, tuple[str, str]] = {
    "denied": ("Denied", "Nothing was done, and the agent was told not to ask for it again."),
    "expired": ("Expired", "Nobody decided before the deadline, so nothing was done."),
    "withdrawn": ("Withdrawn", "The agent's side withdrew the request before it was decided; nothing was done."),
}


@dataclass(frozen=True, slots=True)
class Predecessor:
    """The approval that another one took the place of, and why. `amended`: a person changed what was asked for."""

    approval_id: str
    because: str
    amended: bool = False


def predecessor(approval: Approval, events: Sequence[tuple[EventRow, Recorded]]) -> Predecessor | None:
    """What an approval took the place of; None for the first of its call."""
    before: Predecessor | None = None
    for _, event in events:
        match event:
            case ApprovalVoided():
                before = Predecessor(event.approval_id, event.because)
            case CallAmended():
                because = f"{event.principal} changed what was asked for: {event.reason}"
                before = Predecessor(event.approval_id, because, amended=True)
            case ApprovalRequested() if event.approval_id == approval.approval_id:
                return before
            case _:
                pass
    return None


def voided_on(approval: Approval, events: Sequence[tuple[EventRow, Recorded]]) -> ApprovalVoided | None:
    """Why an approval no longer held, with the facts as they then were."""
    found = (event for _, event in events if isinstance(event, ApprovalVoided))
    return next((each for each in found if each.approval_id == approval.approval_id), None)


def settled_by(events: Sequence[tuple[EventRow, Recorded]]) -> ReviewConcluded | None:
    """The operator's conclusion that a call rests on; None when it rests on what its system said."""
    last = next((event for _, event in reversed(events) if event.type in _CONCLUSIVE), None)
    return last if isinstance(last, ReviewConcluded) else None


def outcome(approval: Approval, record: CallRecord, events: Sequence[tuple[EventRow, Recorded]]) -> Outcome:
    """What a closed approval led to."""
    if approval.status in _CLOSED:
        headline, sentence = _CLOSED[approval.status]
        return Outcome("bad" if approval.status == "denied" else "quiet", headline, sentence)
    if record.approval_id != approval.approval_id:
        return _followed(approval, record, events)
    match record.status:
        case "in_progress":
            return Outcome("wait", "Approved, being carried out", "This page shows what becomes of it.", live=True)
        case "outcome_unknown" if record.review is not None:
            sentence = (
                "It was sent, the answer was lost, and looking it up at the other system did not settle it. "
                "Operators are asked to find out; nothing is sent again meanwhile."
            )
            return Outcome("wait", "Approved, outcome not known", sentence)
        case "outcome_unknown":
            sentence = (
                "It was sent, but the answer was lost. Counterseal is looking it up at the other system, and sends it "
                "again only where it cannot be done twice. There is nothing you have to do."
            )
            return Outcome("wait", "Approved, outcome not known yet", sentence, live=True)
        case "executed":
            return Outcome("good", "Approved and done", _told(record) + _found_out(events))
        case _ if any(event.type == "effect.reversed" for _, event in events):
            sentence = "It had been confirmed; later the other system took it back, so it counts as not done."
            return Outcome("bad", "Approved and done, then undone by the other system", sentence)
        case _ if (concluded := settled_by(events)) is not None:
            sentence = f"Its answer was lost. {concluded.operator} found out that it had not happened."
            return Outcome("bad", "Approved, but not done", sentence)
        case _:
            return Outcome("bad", "Approved, but not done", _told(record))


def _followed(approval: Approval, record: CallRecord, events: Sequence[tuple[EventRow, Recorded]]) -> Outcome:
    """Of an approval that another one took the place of."""
    for _, event in events:
        if isinstance(event, CallAmended) and event.approval_id == approval.approval_id:
            sentence = f"{event.principal} asked for less instead, which is decided for itself. This was not done."
            return Outcome("quiet", "Changed", sentence, successor=record.approval_id)
    void = voided_on(approval, events)
    because = void.because if void else "it no longer held"
    sentence = f"After it was approved, {because}, so people were asked once more. This was not done."
    return Outcome("quiet", "Asked again", sentence, successor=record.approval_id)


def _found_out(events: Sequence[tuple[EventRow, Recorded]]) -> str:
    concluded = settled_by(events)
    return f" {concluded.operator} found that out, since its answer was lost." if concluded else ""


def message_of(record: CallRecord) -> str:
    """What the agent reads of the call as it stands."""
    try:
        return record.reply().message
    except KeyError:
        return REGISTRY[record.code].title + "."


def _told(record: CallRecord) -> str:
    """The first sentence of it: the rest says what an agent should do."""
    first, _, rest = message_of(record).partition(". ")
    return f"{first}." if rest else first
