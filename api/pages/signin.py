"""Signing in with a local account or the OpenID provider, and out."""

import secrets
from dataclasses import dataclass
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from api.attempts import SignInAttempts
from api.context import Context, Services
from api.pages.forms import FOREIGN, Form, ProtectedForm, matches
from api.pages.rendering import render
from api.pages.routing import READS, page_router
from api.proving import LONGEST_PASSWORD
from api.sessions import COOKIE, SECONDS, SignedIn, forget, keep, local_path, person_of

router = page_router()

# Before there is a session, a form is ours when it repeats what only our own cookie holds.
_FORM_COOKIE = "counterseal_signin"
_FORM_TOKEN_BYTES = 24
_FORM_TOKEN_LENGTH = 32
_LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class Problem:
    """Why somebody is not signed in."""

    status: HTTPStatus
    sentence: str


@router.api_route("/signin", methods=READS)
async def signin_form(
    request: Request,
    services: Services,
    target: Annotated[str, Query(alias="next")] = "/",
    signed_out: bool = False,
) -> Response:
    """`signed_out`: they came with the provider's session, which goes on there until they end it."""
    if await person_of(request, services) is not None:
        return RedirectResponse(local_path(target), HTTPStatus.SEE_OTHER)
    elsewhere = await services.oidc.sign_out_url() if signed_out and services.oidc is not None else None
    return signin_page(request, services, local_path(target), sign_out_url=elsewhere)


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
        return too_many(request, services, return_to, wait, username=username)
    signed_in = None
    if len(username) <= _LONGEST_NAME and len(password) <= LONGEST_PASSWORD:
        signed_in = await services.ledger.principals.sign_in(username, password, seconds=SECONDS)
    if signed_in is None:
        problem = Problem(HTTPStatus.UNAUTHORIZED, "The username or the password is not right.")
        return signin_page(request, services, return_to, username=username, problem=problem)
    secret, _ = signed_in
    attempts.succeeded(username, peer)
    response = RedirectResponse(return_to, HTTPStatus.SEE_OTHER)
    keep(response, services, COOKIE, secret, seconds=SECONDS)
    forget(response, services, _FORM_COOKIE)
    return response


@router.post("/signout")
async def signout(request: Request, services: Services, person: SignedIn, form: ProtectedForm) -> Response:
    await services.ledger.principals.sign_out(request.cookies[COOKIE])
    # The provider has to be left by a link: the policy of our pages lets no form lead to another site.
    query = {"next": "/"} | ({"signed_out": "true"} if person.issuer is not None else {})
    response = RedirectResponse(f"/signin?{urlencode(query)}", HTTPStatus.SEE_OTHER)
    forget(response, services, COOKIE)
    return response


def too_many(request: Request, services: Context, return_to: str, wait: int, *, username: str = "") -> Response:
    """`wait`: seconds until the next attempt."""
    problem = Problem(HTTPStatus.TOO_MANY_REQUESTS, f"Too many attempts. Try again in {wait} seconds.")
    response = signin_page(request, services, return_to, username=username, problem=problem)
    response.headers["Retry-After"] = str(wait)
    return response


def signin_page(
    request: Request,
    services: Context,
    return_to: str,
    *,
    username: str = "",
    problem: Problem | None = None,
    sign_out_url: str | None = None,
) -> Response:
    """The page with every way to sign in."""
    token = request.cookies.get(_FORM_COOKIE, "")
    # Kept while it is one of ours, so that a form in another tab stays good.
    if len(token) != _FORM_TOKEN_LENGTH or not token.isascii():
        token = secrets.token_urlsafe(_FORM_TOKEN_BYTES)
    response = render(
        request,
        "signin.html",
        person=None,
        status=problem.status if problem else HTTPStatus.OK,
        token=token,
        return_to=return_to,
        username=username,
        problem=problem.sentence if problem else None,
        provider=services.oidc.name if services.oidc else None,
        provider_link=f"/signin/oidc?{urlencode({'next': return_to})}",
        sign_out_url=sign_out_url,
    )
    keep(response, services, _FORM_COOKIE, token)
    return response
