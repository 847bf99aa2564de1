"""Forms: read strictly, and only when our own page sent them."""

import secrets
from http import HTTPStatus
from typing import Annotated
from urllib.parse import parse_qsl, urlsplit

from fastapi import Depends, Request

from api.context import Context, Services
from api.pages.routing import PageError
from api.sessions import SignedIn

_CONTENT_TYPE = "application/x-www-form-urlencoded"
_MOST_BYTES = 32 * 1024
# A page of the inbox can be selected as a whole.
_MOST_FIELDS = 32

Fields = dict[str, str]

FOREIGN = PageError(
    HTTPStatus.FORBIDDEN,
    "This form did not come from here",
    "Nothing was changed. Open the page again and send the form from there.",
)
_UNREADABLE = PageError(
    HTTPStatus.BAD_REQUEST, "The form cannot be read", "Nothing was changed. Open the page again and send it once more."
)
_TOO_LARGE = PageError(
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "That is too long", "Nothing was changed. Shorten the text and send it again."
)
_NO_FORM = PageError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "That is not a form", "Nothing was changed.")


def same_site(request: Request, services: Context) -> bool:
    """Whether the browser says that our own page sent this; older browsers say nothing, then the token decides.

    `Sec-Fetch-Site` cannot be set by a page (https://www.w3.org/TR/fetch-metadata/); `none` is the person themself.
    """
    site = request.headers.get("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        return False
    origin = request.headers.get("origin")
    if origin is None:
        return True
    own, here = urlsplit(services.public_url), request.headers.get("host")
    return origin == f"{own.scheme}://{own.netloc}" or (here is not None and urlsplit(origin).netloc == here)


def matches(given: str, expected: str) -> bool:
    """Whether a token is the expected one, in constant time; an empty one never is."""
    return bool(expected) and secrets.compare_digest(given.encode(), expected.encode())


async def _read(request: Request, services: Services) -> Fields:
    if not same_site(request, services):
        raise FOREIGN
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _CONTENT_TYPE:
        raise _NO_FORM
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BYTES:
            raise _TOO_LARGE
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, max_num_fields=_MOST_FIELDS, errors="strict")
    except ValueError:
        raise _UNREADABLE from None
    fields = dict(pairs)
    if len(fields) != len(pairs) or any("\0" in value for value in fields.values()):
        raise _UNREADABLE
    return fields


def text_of(form: Fields, name: str) -> str:
    """What somebody wrote, with the line ends of Unix and nothing around it; empty where they wrote nothing."""
    return form.get(name, "").replace("\r\n", "\n").strip()


Form = Annotated[Fields, Depends(_read)]
"""The fields of a form sent from our own site; a field given twice, NUL and broken UTF-8 are refused."""


async def _protected(form: Form, person: SignedIn) -> Fields:
    if not matches(form.get("csrf", ""), person.csrf):
        raise FOREIGN
    return form


ProtectedForm = Annotated[Fields, Depends(_protected)]
"""A form that also carries the token of the person's session."""
