"""Who is signed in on the web form."""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Response

from api.context import Context, Services
from ledger.principals import Person

COOKIE = "counterseal_session"
SECONDS = 8 * 3600
_LONGEST_SECRET = 100


# Where the forms of a page are sent that has another address.
_FORMS_OF_A_PAGE = ("decision", "deadline", "claim", "release")


class NotSignedInError(Exception):
    """Nobody is signed in; `return_to` is where the person wanted to go."""

    def __init__(self, return_to: str) -> None:
        super().__init__(return_to)
        self.return_to = return_to


def local_path(target: str) -> str:
    """`target` when it is a path on this site, else `/`: nobody is sent elsewhere after signing in."""
    parts = urlsplit(target)
    odd = not target.isascii() or not target.isprintable() or "\\" in target
    if odd or parts.scheme or parts.netloc or not target.startswith("/") or target.startswith("//"):
        return "/"
    return target


async def person_of(request: Request, services: Context) -> Person | None:
    """The person whose session the request carries; None when it has none that is live."""
    secret = request.cookies.get(COOKIE, "")
    if not secret or len(secret) > _LONGEST_SECRET:
        return None
    return await services.ledger.principals.session(secret)


async def _signed_in(request: Request, services: Services) -> Person:
    person = await person_of(request, services)
    if person is None:
        raise NotSignedInError(_return_to(request))
    request.state.person = person
    return person


SignedIn = Annotated[Person, Depends(_signed_in)]
"""Yields the person who is signed in. Raises NotSignedInError."""


def _return_to(request: Request) -> str:
    """Where to go on after signing in: this page, or for a form that was sent, the page it is on."""
    if request.method in ("GET", "HEAD"):
        return request.url.path + (f"?{request.url.query}" if request.url.query else "")
    path, _, form = request.url.path.rpartition("/")
    return path if form in _FORMS_OF_A_PAGE else request.url.path


def _secure(services: Context) -> bool:
    return urlsplit(services.public_url).scheme == "https"


def keep(response: Response, services: Context, name: str, value: str, *, seconds: int | None = None) -> None:
    """Set a cookie that scripts cannot read. Lax: it comes along when a link in an e-mail is followed."""
    response.set_cookie(name, value, max_age=seconds, path="/", secure=_secure(services), httponly=True, samesite="lax")


def forget(response: Response, services: Context, name: str) -> None:
    response.delete_cookie(name, path="/", secure=_secure(services), httponly=True, samesite="lax")
