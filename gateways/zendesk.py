"""A helpdesk that speaks Zendesk's API: articles, tickets, and what is written on them.

https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/#update-ticket: a comment is added by updating its
ticket; `safe_update` with `updated_stamp` refuses the update where somebody was faster (409), and what is sent as
`metadata` is in the update's audit for good. Zendesk has no drafts of replies by API: ours are internal notes. Updates
take no idempotency key, so that a lost answer is looked up in the audits and never sent again by itself.
"""

import hashlib
from collections.abc import Mapping, Sequence
from datetime import timedelta
from html.parser import HTMLParser
from typing import Annotated

from pydantic import Field, JsonValue

from gateways.border import (
    Border,
    Instant,
    failed,
    problem_of,
    rate_limited,
    read,
    read_or_raise,
    unknown,
    unsent_or_unknown,
)
from gateways.http import Answer, Answered, NotAnswered, Remote
from gateways.protocols import ReplyRequest, SystemUnavailable
from schemas.codes import Code
from schemas.effects import Absent, Attempt, Confirmed, Exchange, Failed, Inspection, Unknown
from schemas.facts import Article, Ticket, TicketNote
from schemas.replies import Explanation

OPERATION, DIGEST, POSTS = "counterseal_operation", "counterseal_words", "counterseal_draft"
PAGE_SIZE = 100
# More audits of one ticket than this are not read; a ticket has at most 5000 comments.
MOST = 10_000

# (HTTP status, error) -> what became of an update; whatever is not listed means unknown. A status alone decides where
# the error's words are not documented.
OUTCOMES: Mapping[tuple[int, str | None], Code] = {
    (400, None): Code.REMOTE_REFUSED,
    (401, None): Code.AUTH_FAILED,
    (403, None): Code.REMOTE_FORBIDDEN,
    (404, "RecordNotFound"): Code.REMOTE_REFUSED,
    (409, "UpdateConflict"): Code.INVALID_STATE,
    (422, "RecordInvalid"): Code.REMOTE_REFUSED,
    (429, None): Code.RATE_LIMITED,
}

Id = Annotated[int, Field(ge=1, le=2**63 - 1)]


class _Article(Border):
    id: Id
    title: str
    body: str | None
    updated_at: Instant
    draft: bool = False


class _Articles(Border):
    count: Annotated[int, Field(ge=0)]
    results: list[_Article]


class _User(Border):
    id: Id
    external_id: str | None = None


class _Ticket(Border):
    id: Id
    requester_id: Id
    status: str
    updated_at: str


class _TicketAnswer(Border):
    ticket: _Ticket
    users: list[_User]


class _Event(Border):
    type: str
    body: str | None = None
    public: bool | None = None


class _Metadata(Border):
    custom: dict[str, JsonValue] | None = None


class _Audit(Border):
    id: Id
    ticket_id: Id
    events: list[_Event]
    metadata: _Metadata | None = None


class _Meta(Border):
    has_more: bool
    after_cursor: str | None = None


class _Audits(Border):
    audits: list[_Audit]
    meta: _Meta


class _Updated(Border):
    audit: _Audit


class _Error(Border):
    error: str


class ZendeskHelpdesk:
    """A `Helpdesk`."""

    name = "zendesk"
    key_validity = timedelta(0)

    def __init__(self, remote: Remote) -> None:
        self._remote = remote

    async def articles(self, query: str, limit: int) -> tuple[Sequence[Article], int]:
        answer = await self._remote.exchange(
            "GET", "/api/v2/help_center/articles/search", query={"query": query, "per_page": str(limit)}
        )
        page = read_or_raise(_Articles, answer, self._remote.system)
        found = [each for each in page.results if not each.draft][:limit]
        return [
            Article(
                article_id=str(each.id), title=each.title, body=plain_text(each.body or ""), updated_at=each.updated_at
            )
            for each in found
        ], max(page.count, len(found))

    async def ticket(self, ticket_id: str) -> Ticket | None:
        answer = await self._remote.exchange(
            "GET", "/api/v2/tickets/{id}", path={"id": ticket_id}, query={"include": "users"}
        )
        if _is_missing(answer):
            return None
        found = read_or_raise(_TicketAnswer, answer, self._remote.system)
        if str(found.ticket.id) != ticket_id:
            raise SystemUnavailable(self._remote.system, "mismatched")
        audits = await self._audits(ticket_id)
        if isinstance(audits, Unknown):
            raise SystemUnavailable(self._remote.system, audits.exchange.problem or "unreadable")
        requester = {each.id: each.external_id for each in found.users}
        return Ticket(
            ticket_id=ticket_id,
            customer_id=requester.get(found.ticket.requester_id),
            status=found.ticket.status,
            updated_stamp=found.ticket.updated_at,
            notes=tuple(note for audit in audits[0] if (note := to_note(audit)) is not None),
        )

    async def reply(self, request: ReplyRequest) -> Attempt:
        custom: dict[str, JsonValue] = {OPERATION: request.operation_id, DIGEST: words_digest(request.body)}
        if request.draft_id is not None:
            custom[POSTS] = request.draft_id
        update: dict[str, JsonValue] = {
            "comment": {"body": request.body, "public": request.public},
            "metadata": {"custom": custom},
            "safe_update": True,
            "updated_stamp": request.updated_stamp,
        }
        answer = await self._remote.exchange(
            "PUT", "/api/v2/tickets/{id}", path={"id": request.ticket_id}, json={"ticket": update}
        )
        if isinstance(answer, NotAnswered):
            return unsent_or_unknown(answer)
        if answer.status != 200:
            return _refused(answer)
        updated = read(_Updated, answer.json)
        note = None if updated is None or str(updated.audit.ticket_id) != request.ticket_id else to_note(updated.audit)
        if note is None:
            return unknown(answer.exchange, "unreadable")
        return _confirmed(note, request, answer.exchange)

    async def find_reply(self, request: ReplyRequest) -> Inspection:
        audits = await self._audits(request.ticket_id)
        if isinstance(audits, Unknown):
            return audits
        notes = [note for audit in audits[0] if (note := to_note(audit)) is not None]
        own = [note for note in notes if note.operation_id == request.operation_id]
        return _confirmed(own[0], request, audits[1]) if own else Absent(exchange=audits[1])

    async def _audits(self, ticket_id: str) -> tuple[list[_Audit], Exchange] | Unknown:
        """All audits of the ticket, oldest first, and the last exchange; or why they cannot be had."""
        found: list[_Audit] = []
        query = {"page[size]": str(PAGE_SIZE)}
        while True:
            answer = await self._remote.exchange(
                "GET", "/api/v2/tickets/{id}/audits", path={"id": ticket_id}, query=query
            )
            page = read(_Audits, answer.json) if isinstance(answer, Answered) and answer.status == 200 else None
            if page is None or any(str(each.ticket_id) != ticket_id for each in page.audits):
                return unknown(answer.exchange, problem_of(answer))
            found += page.audits
            if not page.meta.has_more:
                return found, answer.exchange
            after = page.meta.after_cursor
            if after is None or not page.audits or len(found) > MOST:
                return unknown(answer.exchange, "unreadable")
            query["page[after]"] = after


class _Words(HTMLParser):
    """Collects what a reader sees of HTML."""

    _UNSEEN = ("script", "style", "template")

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.words: list[str] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in self._UNSEEN

    def handle_endtag(self, tag: str) -> None:
        self._unseen -= tag in self._UNSEEN and self._unseen > 0

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.words.append(data)


def plain_text(html: str) -> str:
    """Pure. The words of an article's body, which is HTML, with single spaces between them."""
    reader = _Words()
    reader.feed(html)
    reader.close()
    return " ".join(" ".join(reader.words).split())


def words_digest(body: str) -> str:
    """SHA-256 of the words, in hexadecimal; how they are spaced is the helpdesk's to change."""
    return hashlib.sha256(" ".join(body.split()).encode("utf-8", "replace")).hexdigest()


def to_note(audit: _Audit) -> TicketNote | None:
    """Pure. What an audit wrote on its ticket; None for one that only changed fields."""
    comment = next((each for each in audit.events if each.type == "Comment"), None)
    if comment is None or comment.body is None or comment.public is None:
        return None
    custom = (audit.metadata and audit.metadata.custom) or {}
    said = {name: value for name, value in custom.items() if isinstance(value, str)}
    return TicketNote(
        note_id=str(audit.id),
        body=comment.body,
        public=comment.public,
        operation_id=said.get(OPERATION),
        altered=OPERATION in said and said.get(DIGEST) != words_digest(comment.body),
        posts=said.get(POSTS),
    )


def _confirmed(note: TicketNote, request: ReplyRequest, exchange: Exchange) -> Confirmed | Unknown:
    """Nothing is believed of an answer whose words are not ours."""
    if note.operation_id != request.operation_id:
        return unknown(exchange, "mismatched_operation")
    if note.public != request.public or words_digest(note.body) != words_digest(request.body):
        return unknown(exchange, "mismatched_words")
    result: dict[str, JsonValue] = {"ticket_id": request.ticket_id, "note_id": note.note_id}
    return Confirmed(remote_id=note.note_id, result=result, exchange=exchange)


def _refused(answer: Answered) -> Failed | Unknown:
    error = read(_Error, answer.json)
    code = OUTCOMES.get((answer.status, None)) or OUTCOMES.get((answer.status, error.error if error else None))
    if code is None:
        return unknown(answer.exchange, f"http_{answer.status}")
    if code is Code.RATE_LIMITED:
        return rate_limited(answer, "helpdesk")
    if code is not Code.INVALID_STATE:
        return failed(code, answer.exchange)
    because = "the ticket was changed by somebody else meanwhile"
    return failed(code, answer.exchange, Explanation(values={"because": because}))


def _is_missing(answer: Answer) -> bool:
    """A 404 of the helpdesk's own; any other 404 could be a wrong base URL."""
    if isinstance(answer, NotAnswered) or answer.status != 404:
        return False
    error = read(_Error, answer.json)
    return error is not None and error.error == "RecordNotFound"
