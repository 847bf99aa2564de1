"""Posts the words of a draft as a person agreed to them, and nothing else."""

from datetime import UTC, datetime
from typing import Annotated

from pydantic import Field, JsonValue

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.effects import Effect
from schemas.facts import Ticket, TicketNote
from tools.facts import unknown_record
from tools.protocol import Refusal, WriteArguments
from tools.tickets import ReplyDraftId, ReplyTarget, TicketFacts, TicketTool, own_ticket, target_of, ticket_facts


class PostApprovedTicketReplyArguments(WriteArguments):
    draft_id: Annotated[ReplyDraftId, Field(description="The draft, as create_ticket_reply_draft answered")]


class ReplyDraft(Model):
    """`facts.draft`. `altered`: its words are not those that were agreed to; `posted`: they were posted already."""

    draft_id: str
    altered: bool
    posted: bool
    words: str


class PostReplyFacts(Model):
    ticket: TicketFacts
    draft: ReplyDraft
    facts_at: datetime


class PostApprovedTicketReplyResult(Model):
    ticket_id: str
    comment_id: str


class PostApprovedTicketReply(
    TicketTool[PostApprovedTicketReplyArguments, PostReplyFacts, PostApprovedTicketReplyResult]
):
    name = "post_approved_ticket_reply"
    arguments_model = PostApprovedTicketReplyArguments
    facts_model = PostReplyFacts
    result_model = PostApprovedTicketReplyResult
    public = True

    async def read_facts(
        self, arguments: PostApprovedTicketReplyArguments, binding: Binding, systems: Systems
    ) -> PostReplyFacts | Refusal:
        ticket_id, _, note_id = arguments.draft_id.partition("-")
        ticket = await own_ticket(systems, ticket_id, "draft_id", binding)
        if isinstance(ticket, Refusal):
            return ticket
        draft = reply_draft(ticket, note_id)
        if draft is None:
            return unknown_record("draft_id", "reply draft of this customer")
        return PostReplyFacts(ticket=ticket_facts(ticket), draft=draft, facts_at=datetime.now(UTC))

    def matters(self, facts: PostReplyFacts) -> dict[str, JsonValue]:
        return {"ticket_status": facts.ticket.status, "draft": facts.draft.model_dump()}

    def target(self, arguments: PostApprovedTicketReplyArguments, facts: PostReplyFacts) -> dict[str, JsonValue]:
        return target_of(facts.ticket, facts.draft.words, facts.draft.draft_id)

    def title(self, arguments: PostApprovedTicketReplyArguments, facts: PostReplyFacts) -> str:
        return f"Post the reply that was agreed to on ticket {facts.ticket.ticket_id}"

    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        ticket_id = ReplyTarget.model_validate(effect.target).ticket_id
        return PostApprovedTicketReplyResult(ticket_id=ticket_id, comment_id=remote_id).model_dump()

    def done(self, arguments: PostApprovedTicketReplyArguments, result: dict[str, JsonValue]) -> str:
        return f"posted the reply on ticket {arguments.draft_id.partition('-')[0]}"


def reply_draft(ticket: Ticket, note_id: str) -> ReplyDraft | None:
    """Pure. The draft among the ticket's notes; None when there is none that we kept."""
    own: list[TicketNote] = [note for note in ticket.notes if note.note_id == note_id and not note.public]
    if not own or own[0].operation_id is None:
        return None
    posted = any(note.posts == note_id for note in ticket.notes)
    return ReplyDraft(draft_id=note_id, altered=own[0].altered, posted=posted, words=own[0].body)


TOOL = PostApprovedTicketReply()
