"""What operators are told of outcomes that nobody knows or that turned out otherwise, and what was found. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from api.pages.story import story
from api.pages.text import words
from ledger.chain import EventRow
from schemas.effects import AlertKind, Exchange, ReviewReason
from schemas.events import EffectIntended, Recorded


@dataclass(frozen=True, slots=True)
class Told:
    """What is the matter, and what to do about it."""

    headline: str
    sentence: str
    todo: str


REASONS: dict[ReviewReason, Told] = {
    "absent": Told(
        "Not found at the other system",
        "It was sent and its answer was lost. The other system does not list it, long after it should have, "
        "and it may not be sent again.",
        "Find out whether it happened, and settle it.",
    ),
    "unreadable": Told(
        "Could not be looked up",
        "It was sent and its answer was lost. The other system could not be asked since, or gave answers that cannot "
        "be relied on.",
        "Find out whether it happened, and settle it; or wait until the other system answers again.",
    ),
    "found_twice": Told(
        "Found twice",
        "The other system lists it more than once, though it was to happen once.",
        "Undo what is too much at the other system, and settle it under the id that counts.",
    ),
}

_ALERTS: dict[AlertKind, Told] = {
    "breaker_tripped": Told(
        "The breaker turned a switch off",
        "A tool was called as often as its breaker lets it. What the switch covers is refused until an operator turns "
        "it on.",
        "Find out why, then turn it on with a reason.",
    ),
    "agent_flood": Told(
        "One agent has more waiting than people can read",
        "More of its calls wait for a person at once than anybody can look at with care. Nothing of it runs unasked.",
        "Look at what it asks for in the inbox, which shows them as one, and turn the agent off if it should not.",
    ),
    "notice_undelivered": Told(
        "People could not be told",
        "A channel that people are told over took nothing for a day, or will not take what it was sent.",
        "Put the channel right, then have what was not delivered sent again, below.",
    ),
    "needs_review": Told(
        "An outcome could not be found out",
        "It was sent, its answer was lost, and looking it up did not settle it. It stays open until it is settled.",
        "Find out at the other system whether it happened, and settle it.",
    ),
    "found_twice": Told(
        "Found twice",
        "The other system lists it more than once, though it was to happen once.",
        "Look at the other system which one counts, and undo what is too much there.",
    ),
    "effect_reversed": Told(
        "Late failure: it was undone after it had been confirmed",
        "The other system took it back. It counts as failed now, and the agent reads that when it asks again.",
        "Tell whoever relied on it, and decide whether it is to be done another way.",
    ),
    "effect_missing": Told(
        "It can no longer be found",
        "It was recorded as done, but the other system does not list it now. It still counts as done.",
        "Look for it at the other system; if it is really gone, make up for it there.",
    ),
    "effect_after_all": Told(
        "It happened after all",
        "It had been settled as not done, and then the other system listed it as done. It counts as done now.",
        "If it was done another way meanwhile, undo one of the two at the other system.",
    ),
}
# Where money is concerned it is said as it is.
_REFUND_ALERTS: dict[AlertKind, Told] = {
    "found_twice": Told(
        "Refunded twice",
        "The payment gateway lists more than one refund for this call: the customer may have got the money twice.",
        "Look at the gateway which one counts, and deal with the other there.",
    ),
    "effect_reversed": Told(
        "Late failure: the money was not refunded after all",
        "The refund had been confirmed, and then it failed: the money came back. The call counts as failed now, and "
        "the amount can be refunded again.",
        "Tell the customer, who was told otherwise, and decide how they get their money.",
    ),
    "effect_missing": Told(
        "A refund can no longer be found",
        "It was recorded as done, but the payment gateway does not list it now. It still counts as refunded.",
        "Look for it at the gateway; if it is really gone, the customer does not have the money.",
    ),
    "effect_after_all": Told(
        "The refund happened after all",
        "It had been settled as not done, and then the payment gateway listed it as done. It counts as refunded now.",
        "Look whether the customer was refunded another way meanwhile: then they have the money twice.",
    ),
}
_REFUND_REASONS: dict[ReviewReason, Told] = {
    "found_twice": Told(
        "Found twice",
        "The payment gateway lists more than one refund for this call. There are two refunds where there was to be "
        "one: the customer may have got the money twice.",
        "Deal with the second refund at the gateway; here nothing can take it back. Then settle the call under the id "
        "of the one that counts.",
    ),
}


def alert_told(kind: AlertKind, operation: str) -> Told:
    """What an alert says. `operation` is the class of action of the call's tool, e.g. `refund`."""
    return (operation == "refund" and _REFUND_ALERTS.get(kind)) or _ALERTS[kind]


def reason_told(reason: ReviewReason, operation: str) -> Told:
    """Why a person has to settle an outcome."""
    return (operation == "refund" and _REFUND_REASONS.get(reason)) or REASONS[reason]


@dataclass(frozen=True, slots=True)
class Look:
    """A sending, a look, or what followed from them."""

    at: datetime
    sentence: str
    exchange: str


def looks(events: Sequence[tuple[EventRow, Recorded]]) -> list[Look]:
    """What was sent and found of an effect, oldest first."""
    return [
        Look(happened.at, happened.sentence, _exchange(event))
        for happened, (_, event) in zip(story(events), events, strict=True)
        if event.type.startswith(("effect.", "review."))
    ]


def _exchange(event: Recorded) -> str:
    if isinstance(event, EffectIntended):
        return f"attempt {event.effect.attempt}"
    exchange: Exchange | None = getattr(event, "exchange", None)
    if exchange is None:
        return ""
    status = exchange.upstream_status
    answer = "no answer" if status is None else f"answered {status}"
    problem = f", {words(exchange.problem)}" if exchange.problem else ""
    return f"{exchange.method} {exchange.path_template}: {answer}{problem}"
