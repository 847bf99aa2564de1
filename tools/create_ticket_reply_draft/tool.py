"""A reply that a person agrees to, word by word; what they agreed to is kept on the ticket, for staff alone."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, JsonValue, StringConstraints

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.effects import Effect
from tools.protocol import Refusal, WriteArguments
from tools.texts import PRINTABLE_LINES
from tools.tickets import (
    ReplyTarget,
    TicketFacts,
    TicketId,
    TicketTool,
    draft_id_of,
    own_ticket,
    target_of,
    ticket_facts,
)


class CreateTicketReplyDraftArguments(WriteArguments):
    ticket_id: Annotated[TicketId, Field(description="The ticket, e.g. 7001")]
    body: Annotated[
        Annotated[str, StringConstraints(min_length=1, max_length=2000, pattern=PRINTABLE_LINES)],
        Field(description="The whole reply, as the customer will read it"),
    ]


class ReplyDraftFacts(Model):
    ticket: TicketFacts
    facts_at: datetime


class CreateTicketReplyDraftResult(Model):
    draft_id: str
    ticket_id: str


class CreateTicketReplyDraft(
    TicketTool[CreateTicketReplyDraftArguments, ReplyDraftFacts, CreateTicketReplyDraftResult]
):
    name = "create_ticket_reply_draft"
    arguments_model = CreateTicketReplyDraftArguments
    facts_model = ReplyDraftFacts
    result_model = CreateTicketReplyDraftResult
    untrusted_arguments = ("body",)
    public = False

    async def read_facts(
        self, arguments: CreateTicketReplyDraftArguments, binding: Binding, systems: Systems
    ) -> ReplyDraftFacts | Refusal:
        ticket = await own_ticket(systems, arguments.ticket_id, "ticket_id", binding)
        if isinstance(ticket, Refusal):
            return ticket
        return ReplyDraftFacts(ticket=ticket_facts(ticket), facts_at=datetime.now(UTC))

    def matters(self, facts: ReplyDraftFacts) -> dict[str, JsonValue]:
        """Words that fitted a conversation may not fit it any more once it went on."""
        return {"ticket_status": facts.ticket.status, "replies": facts.ticket.replies}

    def target(self, arguments: CreateTicketReplyDraftArguments, facts: ReplyDraftFacts) -> dict[str, JsonValue]:
        return target_of(facts.ticket, arguments.body)

    def title(self, arguments: CreateTicketReplyDraftArguments, facts: ReplyDraftFacts) -> str:
        return f"Keep a reply for ticket {facts.ticket.ticket_id}, to be posted as it is worded"

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        ticket_id = ReplyTarget.model_validate(effect.target).ticket_id
        return CreateTicketReplyDraftResult(
            draft_id=draft_id_of(ticket_id, remote_id), ticket_id=ticket_id
        ).model_dump()

    def done(self, arguments: CreateTicketReplyDraftArguments, result: dict[str, JsonValue]) -> str:
        return f"kept the reply for ticket {arguments.ticket_id}; the customer has not seen it yet"


TOOL = CreateTicketReplyDraft()
