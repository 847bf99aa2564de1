"""What happened to a call, told from its events; and what became of it after the decision. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.chain import EventRow
from ledger.records import CallRecord
from schemas.codes import REGISTRY
from schemas.decisions import Approval, HumanDecision
from schemas.events import Event

# One sentence an event; the names are the event's own fields.
_SENTENCES = {
    "call.proposed": "The agent asked for it",
    "call.decided": "The policy answered “{decision[verdict]}” by the rule {decision[rule]}",
    "approval.requested": "A person of the group {approvers} was asked",
    "approval.viewed": "{viewer} opened the request",
    "approval.granted": "{approver} approved it",
    "approval.denied": "{approver} denied it",
    "approval.expired": "Nobody decided before the deadline",
    "approval.voided": "The approval no longer held: {because}",
    "decision.rejected": "Something that claimed to be a decision was turned away",
    "effect.intended": "It was about to be sent",
    "effect.confirmed": "The other system confirmed it as {remote_id}",
    "effect.failed": "The other system did not do it ({code})",
    "effect.unknown": "The answer was lost: it may or may not have happened",
    "effect.inspected": "It was looked up: {found}",
    "effect.reversed": "It was undone later by the other system",
    "review.requested": "A person was asked to find out what became of it",
    "review.concluded": "{operator} found out what became of it: {evidence}",
    "call.cancelled": "{principal} withdrew it",
    "call.settled": "The call was closed: {status}",
    "limit.hit": "A limit was reached: {limit}",
    "diagnostic.opened": "{principal} opened the diagnostics",
}

Tone = Literal["good", "bad", "wait", "quiet"]


@dataclass(frozen=True, slots=True)
class Happened:
    at: datetime
    type: str
    sentence: str


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


def story(events: Sequence[tuple[EventRow, Event]]) -> list[Happened]:
    """Every event of a call in order, as sentences."""
    return [Happened(row.at, event.type, _sentence(event)) for row, event in events]


def _sentence(event: Event) -> str:
    template = _SENTENCES.get(event.type)
    if template is None:
        return event.type
    return template.format_map(defaultdict(str, event.model_dump(mode="json")))


def decision_of(approval: Approval) -> HumanDecision | None:
    """The decision that closed the approval."""
    return approval.decisions[-1] if approval.decisions else None


_CLOSED: dict[str, tuple[str, str]] = {
    "denied": ("Denied", "Nothing was done, and the agent was told not to ask for it again."),
    "expired": ("Expired", "Nobody decided before the deadline, so nothing was done."),
    "withdrawn": ("Withdrawn", "The agent's side withdrew the request before it was decided; nothing was done."),
}


def outcome(approval: Approval, record: CallRecord) -> Outcome:
    """What a closed approval led to."""
    if approval.status in _CLOSED:
        headline, sentence = _CLOSED[approval.status]
        return Outcome("bad" if approval.status == "denied" else "quiet", headline, sentence)
    if record.status == "pending_approval" and record.approval_id != approval.approval_id:
        sentence = "What it rested on changed before it was done, so a person is asked once more. Nothing was done yet."
        return Outcome("wait", "Asked again", sentence, successor=record.approval_id)
    match record.status:
        case "in_progress":
            return Outcome("wait", "Approved, being carried out", "This page shows what becomes of it.", live=True)
        case "outcome_unknown":
            sentence = (
                "It was sent, but the answer was lost. Counterseal is looking it up at the other system and does not "
                "send it again meanwhile. There is nothing you have to do."
            )
            return Outcome("wait", "Approved, outcome not known yet", sentence, live=True)
        case "executed":
            return Outcome("good", "Approved and done", _told(record))
        case _:
            return Outcome("bad", "Approved, but not done", _told(record))


def _told(record: CallRecord) -> str:
    """The first sentence of what the agent was told: the rest says what an agent should do."""
    try:
        message = record.reply().message
    except KeyError:
        return REGISTRY[record.code].title + "."
    first, _, rest = message.partition(". ")
    return f"{first}." if rest else message
