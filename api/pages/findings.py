"""What an operator found out about an outcome that nobody knew: read from the form, and what it will lead to. Pure."""

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from api.pages.forms import Fields
from api.pages.text import words
from gateways.border import RemoteId
from ledger.records import CallRecord
from schemas.codes import Code
from schemas.effects import Effect
from schemas.money import Money
from schemas.replies import Explanation, reply_for
from tools.protocol import WriteArguments, WriteTool

LEAST_EVIDENCE, MOST_EVIDENCE = 10, 2000
# Nothing that is typed into that field is longer; a page shows it again.
_MOST_REMOTE_ID = 255

About = Literal["happened", "remote_id", "evidence", "confirmation"]
_REMOTE_ID: TypeAdapter[str] = TypeAdapter(RemoteId)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether it happened, under which id, and how the operator knows. As typed: see `objection_to`."""

    happened: bool
    remote_id: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Objection:
    """Why nothing was recorded, and which field it is about."""

    sentence: str
    about: About


def read_finding(form: Fields) -> Finding | Objection:
    """What was typed, without spaces around it."""
    happened = form.get("happened")
    if happened not in ("yes", "no"):
        return Objection("Say whether it happened.", "happened")
    remote_id = form.get("remote_id", "").strip() if happened == "yes" else ""
    return Finding(happened == "yes", remote_id, form.get("evidence", "").replace("\r\n", "\n").strip())


def objection_to(finding: Finding, record: CallRecord) -> Objection | None:
    """What is wrong with a finding by itself."""
    if record.review == "found_twice" and not finding.happened:
        return Objection("It was found at the other system, so it did happen. Give the id that counts.", "happened")
    if finding.happened and not _is_remote_id(finding.remote_id):
        sentence = f"Give the id as the other system shows it: letters, digits, - and _, at most {_MOST_REMOTE_ID}."
        return Objection(sentence, "remote_id")
    if len(finding.evidence) < LEAST_EVIDENCE:
        return Objection(f"Say how you know, in at least {LEAST_EVIDENCE} characters.", "evidence")
    if len(finding.evidence) > MOST_EVIDENCE:
        return Objection(f"That is too long: at most {MOST_EVIDENCE:,} characters.", "evidence")
    return None


def _is_remote_id(text: str) -> bool:
    try:
        _REMOTE_ID.validate_python(text)
    except ValidationError:
        return False
    return True


def amount_of(effect: Effect) -> Money | None:
    """The money that an effect moves; None when it moves none."""
    amount, currency = effect.target.get("amount_cents"), effect.target.get("currency")
    if not isinstance(amount, int) or not isinstance(currency, str):
        return None
    try:
        return Money(amount=amount, currency=currency)
    except ValidationError:
        return None


@dataclass(frozen=True, slots=True)
class Phrase:
    """What has to be typed to confirm, and what it is."""

    name: str
    text: str


def phrase_of(effect: Effect) -> Phrase:
    """The amount without its currency, e.g. `49.99`; of an effect without one the order's id."""
    money = amount_of(effect)
    if money is not None:
        amount, _, _ = str(money).partition(" ")
        return Phrase("amount", amount)
    order_id = effect.target.get("order_id")
    return Phrase("order id", order_id) if isinstance(order_id, str) else Phrase("operation id", effect.operation_id)


@dataclass(frozen=True, slots=True)
class Leads:
    """What recording a finding does: in sentences, and what exactly the agent reads when it asks again."""

    sentences: tuple[str, ...]
    told: str


def leads_to(finding: Finding, request_id: str, effect: Effect, operation: str, done: str) -> Leads:
    """`done` is the tool's sentence of what was done; only used for an effect that happened."""
    money = amount_of(effect)
    what = str(money) if money is not None and operation == "refund" else None
    if finding.happened:
        sentences = _happened(finding, what, operation)
        reply = reply_for(Code.OK, request_id, Explanation(values={"done": done}))
    else:
        sentences = _not_happened(what, operation)
        reply = reply_for(Code.REMOTE_REFUSED, request_id, Explanation())
    return Leads(sentences, reply.message)


def _happened(finding: Finding, refunded: str | None, operation: str) -> tuple[str, ...]:
    counted = f"{refunded} count as refunded" if refunded else f"The {words(operation)} counts as done"
    return (
        f"{counted}, under the id {finding.remote_id}. Nothing is sent to the other system.",
        "The agent is told so, and goes on from there.",
        "If it did not happen after all, nobody makes up for it by itself.",
    )


def _not_happened(refundable: str | None, operation: str) -> tuple[str, ...]:
    if refundable:
        again = f"{refundable} can be refunded again: nothing is kept back for it any longer."
        twice = "If the gateway did carry it out, a later refund would be a second one, and the customer has it twice."
    else:
        again = f"The {words(operation)} counts as not done, and can be asked for again."
        twice = "If the other system did carry it out, a later one would be a second one."
    return (again, "The agent is told that it failed and not to send it again.", twice)


def presumed(
    finding: Finding, effect: Effect, tool: WriteTool[Any, Any, Any], arguments: WriteArguments
) -> tuple[dict[str, Any] | None, str]:
    """(result, sentence of what was done) of an effect as an operator found it; nothing for one that did not happen."""
    if not finding.happened:
        return None, ""
    result = tool.presumed(effect, finding.remote_id)
    return result, tool.done(arguments, result)
