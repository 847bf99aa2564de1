"""What the tools that write on tickets have in common: whose ticket it is, and one addition to it."""

from typing import Annotated, TypeVar

from pydantic import JsonValue, StringConstraints

from gateways.protocols import ReplyRequest, Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.decisions import Claim
from schemas.effects import Attempt, Confirmed, Effect, Inspection
from schemas.facts import Ticket
from tools.facts import unknown_record
from tools.protocol import Refusal, WriteArguments, WriteTool

TicketId = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,15}$")]
# A ticket and the note on it that holds the words.
ReplyDraftId = Annotated[str, StringConstraints(pattern=r"^[1-9][0-9]{0,15}-[1-9][0-9]{0,18}$")]


class TicketFacts(Model):
    """`facts.ticket`. `replies` counts what the customer can read on it; `updated_stamp` is the helpdesk's."""

    ticket_id: str
    status: str
    replies: int
    updated_stamp: str


class ReplyTarget(Model):
    """`Effect.target` of words on a ticket."""

    ticket_id: str
    body: str
    updated_stamp: str
    draft_id: str | None = None


async def own_ticket(systems: Systems, ticket_id: str, field: str, binding: Binding) -> Ticket | Refusal:
    """The ticket when it is the run's customer's; `field` is the argument that names it. Raises SystemUnavailable."""
    ticket = await systems.helpdesk.ticket(ticket_id)
    if ticket is None or ticket.customer_id != binding.customer_id:
        return unknown_record(field, "ticket of this customer")
    return ticket


def ticket_facts(ticket: Ticket) -> TicketFacts:
    return TicketFacts(
        ticket_id=ticket.ticket_id,
        status=ticket.status,
        replies=sum(note.public for note in ticket.notes),
        updated_stamp=ticket.updated_stamp,
    )


W = TypeVar("W", bound=WriteArguments)
F = TypeVar("F", bound=Model)
R = TypeVar("R", bound=Model)


class TicketTool(WriteTool[W, F, R]):
    """Adds words to a ticket: an internal note, or with `public` a reply that the customer reads."""

    public: bool

    def check(self, arguments: W, facts: F) -> Refusal | None:
        return None

    def claim(self, arguments: W, facts: F) -> Claim | None:
        return None

    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        outcome = await systems.helpdesk.reply(self._request(effect))
        return self._answered(effect, outcome) if isinstance(outcome, Confirmed) else outcome

    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        outcome = await systems.helpdesk.find_reply(self._request(effect))
        return self._answered(effect, outcome) if isinstance(outcome, Confirmed) else outcome

    def _request(self, effect: Effect) -> ReplyRequest:
        target = ReplyTarget.model_validate(effect.target)
        return ReplyRequest(**target.model_dump(), public=self.public, operation_id=effect.operation_id)

    def _answered(self, effect: Effect, outcome: Confirmed) -> Confirmed:
        return outcome.model_copy(update={"result": self.presumed(effect, outcome.remote_id)})


def draft_id_of(ticket_id: str, note_id: str) -> str:
    """How an agent names a draft."""
    return f"{ticket_id}-{note_id}"


def target_of(ticket: TicketFacts, body: str, draft_id: str | None = None) -> dict[str, JsonValue]:
    target = ReplyTarget(ticket_id=ticket.ticket_id, body=body, updated_stamp=ticket.updated_stamp, draft_id=draft_id)
    return target.model_dump(exclude_none=True)
