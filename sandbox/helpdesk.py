"""A helpdesk as Zendesk documents its API: articles of the help centre, tickets, and the audits of their updates.

https://developer.zendesk.com/api-reference/help_center/help-center-api/search/,
https://developer.zendesk.com/api-reference/ticketing/tickets/tickets/ and …/ticket_audits/. An update carries a comment
(`public` or an internal note) and `metadata.custom`, which its audit shows again. Updating takes no idempotency key:
`safe_update` with `updated_stamp` refuses one that comes second (409 UpdateConflict).
"""

import hmac
import json
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, ValidationError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sandbox.models import Identifier, Instant, Line, Name, describe
from sandbox.state import State, to_iso, to_us

AGENT_ID = 1001
_PER_PAGE = 100

TicketStatus = Literal["new", "open", "pending", "hold", "solved", "closed"]
Words = Annotated[str, StringConstraints(min_length=1, max_length=10_000)]
Id = Annotated[int, Field(ge=1, le=2**53)]


class Article(Line):
    id: Id
    title: Name
    body: Words
    updated_at: Instant


class Ticket(Line):
    """`customer_id` is the requester's `external_id`; `description` is what they wrote first."""

    id: Id
    customer_id: Identifier
    status: TicketStatus = "open"
    subject: Name
    description: Words


class Comment(Line):
    body: Words
    public: bool = True


class Metadata(Line):
    custom: dict[str, str] = Field(default_factory=dict[str, str])


class TicketUpdate(Line):
    comment: Comment
    metadata: Metadata = Metadata()
    safe_update: bool = False
    updated_stamp: Instant | None = None


class Update(Line):
    ticket: TicketUpdate


class Helpdesk:
    """The helpdesk's endpoints on a state, for the bearer of `key`."""

    def __init__(self, state: State, key: str) -> None:
        self._state = state
        self._authorization = f"Bearer {key}".encode()

    def routes(self) -> list[Route]:
        return [
            Route("/api/v2/help_center/articles/search", self.search),
            Route("/api/v2/tickets/{ticket_id:int}", self.ticket, methods=["GET", "PUT"]),
            Route("/api/v2/tickets/{ticket_id:int}/audits", self.audits),
            Route("/_articles/{article_id:int}", self.control_article, methods=["PUT"]),
            Route("/_tickets/{ticket_id:int}", self.control_ticket, methods=["GET", "PUT"]),
        ]

    async def search(self, request: Request) -> Response:
        """Articles that hold any of the words, those with most of them first."""
        if not self._authorized(request):
            return _unauthorized()
        words = request.query_params.get("query", "").casefold().split()
        per_page = request.query_params.get("per_page", "25")
        if not words or not (per_page.isascii() and per_page.isdigit() and 1 <= int(per_page[:9]) <= _PER_PAGE):
            return _error(400, "BadRequest", "query is required; per_page is 1 to 100")
        rows = self._state.db.execute("SELECT line FROM articles ORDER BY article_id").fetchall()
        articles = [json.loads(row["line"]) for row in rows]
        hits = {each["id"]: _hits(each, words) for each in articles}
        found = sorted((each for each in articles if hits[each["id"]]), key=lambda each: -hits[each["id"]])
        shown = [
            {**each, "result_type": "article", "author_id": AGENT_ID, "snippet": each["body"][:200], "draft": False}
            for each in found[: int(per_page)]
        ]
        return JSONResponse({"count": len(found), "page": 1, "per_page": int(per_page), "results": shown})

    async def ticket(self, request: Request) -> Response:
        body, ticket_id = await request.body(), int(request.path_params["ticket_id"])
        if not self._authorized(request):
            return _unauthorized()
        row = self._state.db.execute("SELECT * FROM tickets WHERE ticket_id = ?", (ticket_id,)).fetchone()
        if row is None:
            return _error(404, "RecordNotFound", "Not found")
        if request.method == "GET":
            return JSONResponse(
                self._shown(row["line"], row["updated_us"], "users" in request.query_params.get("include", ""))
            )
        try:
            update = Update.model_validate_json(body).ticket
        except ValidationError as problem:
            return _error(422, "RecordInvalid", describe(problem))
        if json.loads(row["line"])["status"] == "closed":
            return _error(422, "RecordInvalid", "Status: closed prevents ticket update")
        if update.safe_update and (update.updated_stamp is None or to_us(update.updated_stamp) != row["updated_us"]):
            return _error(409, "UpdateConflict", "Safe Update prevented the update due to outdated ticket data")
        with self._state.transaction():
            audit = self._add(ticket_id, update)
            row = self._state.db.execute("SELECT * FROM tickets WHERE ticket_id = ?", (ticket_id,)).fetchone()
        return JSONResponse({**self._shown(row["line"], row["updated_us"], False), "audit": audit})

    def _add(self, ticket_id: int, update: TicketUpdate) -> dict[str, Any]:
        at = self._state.now_us()
        cursor = self._state.db.execute(
            "INSERT INTO audits (ticket_id, author_id, body, public, custom, at_us) VALUES (?, ?, ?, ?, ?, ?)",
            (
                ticket_id,
                AGENT_ID,
                update.comment.body,
                update.comment.public,
                json.dumps(update.metadata.custom),
                at,
            ),
        )
        self._state.db.execute("UPDATE tickets SET updated_us = ? WHERE ticket_id = ?", (at, ticket_id))
        row = self._state.db.execute("SELECT * FROM audits WHERE audit_id = ?", (cursor.lastrowid,)).fetchone()
        return _audit(row)

    async def audits(self, request: Request) -> Response:
        """A page of the ticket's audits, oldest first (cursor pagination: `page[size]`, `page[after]`)."""
        if not self._authorized(request):
            return _unauthorized()
        ticket_id = int(request.path_params["ticket_id"])
        if self._state.db.execute("SELECT 1 FROM tickets WHERE ticket_id = ?", (ticket_id,)).fetchone() is None:
            return _error(404, "RecordNotFound", "Not found")
        size, after = request.query_params.get("page[size]", "100"), request.query_params.get("page[after]", "0")
        if not (size.isdigit() and after.isdigit() and 1 <= int(size[:9]) <= _PER_PAGE):
            return _error(400, "BadRequest", "page[size] is 1 to 100")
        rows = self._state.db.execute(
            "SELECT * FROM audits WHERE ticket_id = ? AND audit_id > ? ORDER BY audit_id LIMIT ?",
            (ticket_id, int(after[:18]), int(size) + 1),
        ).fetchall()
        page = rows[: int(size)]
        cursor = str(page[-1]["audit_id"]) if page else None
        return JSONResponse(
            {
                "audits": [_audit(row) for row in page],
                "meta": {"has_more": len(rows) > len(page), "after_cursor": cursor},
            }
        )

    def _shown(self, line: str, updated_us: int, users: bool) -> dict[str, Any]:
        ticket = json.loads(line)
        customer_id = ticket.pop("customer_id")
        requester = 5000 + ticket["id"]
        shown = {**ticket, "requester_id": requester, "updated_at": to_iso(updated_us)}
        more = {"users": [{"id": requester, "external_id": customer_id, "role": "end-user"}]} if users else {}
        return {"ticket": shown, **more}

    async def control_article(self, request: Request) -> Response:
        try:
            article = Article.model_validate_json(await request.body())
        except ValidationError as problem:
            return _error(422, "RecordInvalid", describe(problem))
        put_article(self._state, article)
        return JSONResponse(article.model_dump())

    async def control_ticket(self, request: Request) -> Response:
        """The ticket with all that was written on it, as it stands now."""
        ticket_id = int(request.path_params["ticket_id"])
        if request.method == "PUT":
            try:
                ticket = Ticket.model_validate_json(await request.body())
            except ValidationError as problem:
                return _error(422, "RecordInvalid", describe(problem))
            put_ticket(self._state, ticket)
        row = self._state.db.execute("SELECT * FROM tickets WHERE ticket_id = ?", (ticket_id,)).fetchone()
        if row is None:
            return _error(404, "RecordNotFound", "Not found")
        audits = self._state.db.execute("SELECT * FROM audits WHERE ticket_id = ? ORDER BY audit_id", (ticket_id,))
        return JSONResponse({**json.loads(row["line"]), "audits": [_audit(each) for each in audits.fetchall()]})

    def _authorized(self, request: Request) -> bool:
        return hmac.compare_digest(request.headers.get("authorization", "").encode(), self._authorization)


def put_article(state: State, article: Article) -> None:
    state.db.execute("INSERT OR REPLACE INTO articles VALUES (?, ?)", (article.id, article.model_dump_json()))


def put_ticket(state: State, ticket: Ticket) -> None:
    """Creates or replaces a ticket; what was written on it stays."""
    state.db.execute(
        "INSERT OR REPLACE INTO tickets VALUES (?, ?, ?)", (ticket.id, state.now_us(), ticket.model_dump_json())
    )


def _hits(article: dict[str, Any], words: list[str]) -> int:
    text = f"{article['title']} {article['body']}".casefold()
    return sum(word in text for word in words)


def _audit(row: Any) -> dict[str, Any]:
    comment = {"id": row["audit_id"] * 10, "type": "Comment", "body": row["body"], "public": bool(row["public"])}
    return {
        "id": row["audit_id"],
        "ticket_id": row["ticket_id"],
        "author_id": row["author_id"],
        "created_at": to_iso(row["at_us"]),
        "metadata": {"system": {}, "custom": json.loads(row["custom"])},
        "events": [comment],
    }


def _error(status: int, name: str, description: str) -> Response:
    return JSONResponse({"error": name, "description": description}, status)


def _unauthorized() -> Response:
    return JSONResponse({"error": "Couldn't authenticate you"}, 401)
