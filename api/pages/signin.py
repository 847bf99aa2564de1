"""Signing in and out with a local account."""

import secrets
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from api.attempts import SignInAttempts
from api.context import Services
from api.pages.forms import FOREIGN, Form, ProtectedForm, matches
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.sessions import COOKIE, SECONDS, SignedIn, forget, keep, local_path, person_of

router = page_router()

# Before there is a session, a form is ours when it repeats what only our own cookie holds.
_FORM_COOKIE = "counterseal_signin"
_FORM_TOKEN_BYTES = 24
_FORM_TOKEN_LENGTH = 32
_LONGEST_NAME = 100
_LONGEST_PASSWORD = 1000


@router.api_route("/signin", methods=READS)
async def signin_form(
    request: Request, services: Services, target: Annotated[str, Query(alias="next")] = "/"
) -> Response:
    if await person_of(request, services) is not None:
        return RedirectResponse(local_path(target), HTTPStatus.SEE_OTHER)
    return _page(request, services, return_to=local_path(target))


@router.post("/signin")
async def signin(request: Request, services: Services, form: Form) -> Response:
    if not matches(form.get("csrf", ""), request.cookies.get(_FORM_COOKIE, "")):
        raise FOREIGN
    username, password = form.get("username", "").strip(), form.get("password", "")
    return_to = local_path(form.get("next", "/"))
    peer = request.client.host if request.client else ""
    attempts: SignInAttempts = services.sign_in_attempts
    wait = attempts.begin(username[:_LONGEST_NAME], peer)
    if wait is not None:
        problem = f"Too many attempts. Try again in {wait} seconds."
        response = _page(request, services, return_to, username, problem, HTTPStatus.TOO_MANY_REQUESTS)
        response.headers["Retry-After"] = str(wait)
        return response
    signed_in = None
    if len(username) <= _LONGEST_NAME and len(password) <= _LONGEST_PASSWORD:
        signed_in = await services.ledger.principals.sign_in(username, password, seconds=SECONDS)
    if signed_in is None:
        problem = "The username or the password is not right."
        return _page(request, services, return_to, username, problem, HTTPStatus.UNAUTHORIZED)
    secret, _ = signed_in
    attempts.succeeded(username, peer)
    response = RedirectResponse(return_to, HTTPStatus.SEE_OTHER)
    keep(response, services, COOKIE, secret, seconds=SECONDS)
    forget(response, services, _FORM_COOKIE)
    return response


@router.post("/signout")
async def signout(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    await services.ledger.principals.sign_out(request.cookies[COOKIE])
    response = RedirectResponse(f"/signin?{urlencode({'next': '/'})}", HTTPStatus.SEE_OTHER)
    forget(response, services, COOKIE)
    return response


def _page(
    request: Request,
    services: Services,
    return_to: str,
    username: str = "",
    problem: str | None = None,
    status: HTTPStatus = HTTPStatus.OK,
) -> Response:
    token = request.cookies.get(_FORM_COOKIE, "")
    # Kept while it is one of ours, so that a form in another tab stays good.
    if len(token) != _FORM_TOKEN_LENGTH or not token.isascii():
        token = secrets.token_urlsafe(_FORM_TOKEN_BYTES)
    response = render(
        request,
        "signin.html",
        person=None,
        status=status,
        token=token,
        return_to=return_to,
        username=username,
        problem=problem,
    )
    keep(response, services, _FORM_COOKIE, token)
    return response
