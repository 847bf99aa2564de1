"""What all pages share: problems become pages, and whoever is not signed in is asked to."""

from collections.abc import Callable, Coroutine
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

import structlog
from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import RedirectResponse
from fastapi.routing import APIRoute

from api.cursors import BadCursor
from api.pages.rendering import render
from api.sessions import NotSignedInError
from ledger.data_keys import KeyDestroyed
from ledger.database import UNAVAILABLE

_log = structlog.get_logger()
READS = ["GET", "HEAD"]

Text = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
"""A text in the query of an address: short, and something that the database can have."""


class PageError(Exception):
    """A page that cannot be shown: status, headline, and a sentence that says what to do."""

    def __init__(self, status: HTTPStatus, title: str, sentence: str) -> None:
        super().__init__(title)
        self.status = status
        self.title = title
        self.sentence = sentence


_UNAVAILABLE = PageError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The ledger cannot be reached",
    "What waits keeps waiting until its deadline. Try again in a moment.",
)
_UNCERTAIN = PageError(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The ledger cannot be reached",
    "It is not certain whether what you sent was recorded. Open the page again in a moment: it shows what stands.",
)
_MALFORMED = PageError(
    HTTPStatus.BAD_REQUEST, "That address is not complete", "Something in the link is missing or cannot be read."
)
_ERASED = PageError(
    HTTPStatus.GONE, "This was erased", "The customer's data was erased, and what this page would show with it."
)


class PageRoute(APIRoute):
    """A route whose answers are pages, also when something is wrong."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def handle(request: Request) -> Response:
            try:
                return await handler(request)
            except NotSignedInError as needed:
                return RedirectResponse(f"/signin?{urlencode({'next': needed.return_to})}", HTTPStatus.SEE_OTHER)
            except PageError as problem:
                return problem_page(request, problem)
            except (RequestValidationError, BadCursor):
                return problem_page(request, _MALFORMED)
            except KeyDestroyed:
                return problem_page(request, _ERASED)
            except UNAVAILABLE as problem:
                _log.error("page_unavailable", path=self.path, problem=type(problem).__name__)
                return problem_page(request, _UNAVAILABLE if request.method in READS else _UNCERTAIN)

        return handle


def page_router() -> APIRouter:
    """A router for one page."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


def problem_page(request: Request, problem: PageError) -> Response:
    return render(
        request,
        "problem.html",
        person=getattr(request.state, "person", None),
        status=problem.status,
        problem=problem,
    )
