"""Signing in with the OpenID provider: away to it, and back."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Annotated

import structlog
from fastapi import Query, Request, Response
from fastapi.responses import RedirectResponse

from api.context import Context, Services
from api.oidc import Provider, SignInRefusedError, new_verifier, state_of
from api.oidc_exchange import ProviderUnavailableError
from api.pages.routing import PageError, page_router
from api.pages.signin import Problem, signin_page, too_many
from api.sessions import COOKIE, SECONDS, forget, keep, local_path, person_of
from ledger.identities import Identity, Refusal, SignInBegun
from ledger.principals import token_hash

router = page_router()
_log = structlog.get_logger()

CALLBACK = "/signin/oidc/callback"
# What only the browser that began a sign-in holds, for as long as one may take.
_STATE_COOKIE = "counterseal_oidc"
_STATE_SECONDS = 600
_LONGEST = 4096
_NOT_SET_UP = PageError(
    HTTPStatus.NOT_FOUND, "There is no such way to sign in", "Sign in with a username and a password."
)
_AWAY = Problem(
    HTTPStatus.SERVICE_UNAVAILABLE,
    "The sign-in provider cannot be reached, or does not answer as it should. Try again in a moment; if it stays so,"
    " tell an operator.",
)
_NOT_AGAIN = Problem(
    HTTPStatus.FORBIDDEN,
    "The sign-in provider did not say that you just signed in there anew, so nothing is proven. Begin again.",
)
_SOMEBODY_ELSE = Problem(
    HTTPStatus.FORBIDDEN, "At the sign-in provider somebody else signed in than is signed in here. Begin again."
)
_STALE = Problem(
    HTTPStatus.BAD_REQUEST,
    "This sign-in was not begun in this browser, was used already, or took too long. Begin again.",
)
_NOT_VOUCHED = Problem(HTTPStatus.FORBIDDEN, "What the sign-in provider sent does not hold. Begin again.")
_PROBLEMS: dict[str, Problem] = {
    "denied_at_the_provider": Problem(HTTPStatus.FORBIDDEN, "The sign-in was cancelled or refused at the provider."),
    "error_at_the_provider": Problem(HTTPStatus.BAD_GATEWAY, "The sign-in provider could not sign you in."),
    "not_signed_in_anew": _NOT_AGAIN,
    "code_not_taken": Problem(HTTPStatus.FORBIDDEN, "The sign-in provider no longer knows this sign-in. Begin again."),
    "email_not_verified": Problem(
        HTTPStatus.FORBIDDEN, "The sign-in provider has not verified your e-mail address. Have it verified there first."
    ),
}
_REFUSALS: dict[Refusal, Problem] = {
    "no_role": Problem(
        HTTPStatus.FORBIDDEN,
        "You have no role here. Ask whoever runs this service to have you added to a group that may decide.",
    ),
    "name_taken": Problem(
        HTTPStatus.FORBIDDEN,
        "Your name belongs to another account here. If that account is yours, ask an operator to link the two.",
    ),
    "no_name": Problem(
        HTTPStatus.FORBIDDEN, "The sign-in provider gives no name that an account here can have. Ask an operator."
    ),
    "disabled": Problem(HTTPStatus.FORBIDDEN, "Your account here is disabled."),
}


@router.get("/signin/oidc")
async def begin(
    request: Request,
    services: Services,
    target: Annotated[str, Query(alias="next")] = "/",
    again: bool = False,
) -> Response:
    """Send the browser to the provider. What it has to come back with is kept by the hash of what its cookie holds.

    `again`: whoever is signed in proves that it is still them.
    """
    provider, return_to = _provider(services), local_path(target)[:_LONGEST]
    person = await person_of(request, services)
    if person is not None and not again:
        return RedirectResponse(return_to, HTTPStatus.SEE_OTHER)
    again = person is not None
    secret, nonce, verifier = new_verifier(), new_verifier(), new_verifier()
    # Every one is counted for the address it comes from, and none for an account.
    wait = services.sign_in_attempts.begin(secret, request.client.host if request.client else "")
    if wait is not None:
        return too_many(request, services, return_to, wait)
    try:
        away = await provider.authorization_url(state=state_of(secret), nonce=nonce, verifier=verifier, again=again)
    except ProviderUnavailableError as problem:
        return _unavailable(request, services, return_to, problem)
    await services.ledger.principals.identities.begin_sign_in(
        token_hash(secret), SignInBegun(nonce, verifier, return_to, again), seconds=_STATE_SECONDS
    )
    response = RedirectResponse(away, HTTPStatus.FOUND)
    keep(response, services, _STATE_COOKIE, secret, seconds=_STATE_SECONDS)
    return response


@router.get(CALLBACK)
async def finish(request: Request, services: Services) -> Response:
    """Take the provider's response, once, in the browser that was sent there."""
    provider, secret = _provider(services), request.cookies.get(_STATE_COOKIE, "")
    answer = _response_parameters(request)
    begun = None
    if answer is not None and secret and answer.get("state") == state_of(secret[:_LONGEST]):
        begun = await services.ledger.principals.identities.take_sign_in(token_hash(secret))
    if answer is None or begun is None:
        _log.warning("oidc_sign_in_refused", because="not_begun_here")
        return _without_state(services, signin_page(request, services, "/", problem=_STALE))
    try:
        identity = await provider.finish(answer, nonce=begun.nonce, verifier=begun.verifier, again=begun.again)
    except ProviderUnavailableError as problem:
        return _without_state(services, _unavailable(request, services, begun.return_to, problem))
    except SignInRefusedError as refused:
        _log.warning("oidc_sign_in_refused", because=refused.because)
        said = _PROBLEMS.get(refused.because, _NOT_VOUCHED)
        return _without_state(services, signin_page(request, services, begun.return_to, problem=said))
    return _without_state(services, await _sign_in(request, services, provider, identity, begun))


async def _sign_in(
    request: Request, services: Context, provider: Provider, identity: Identity, begun: SignInBegun
) -> Response:
    principals, return_to = services.ledger.principals, begun.return_to
    before = await person_of(request, services) if begun.again else None
    if (
        before is not None
        and await principals.identities.account_of(identity.issuer, identity.subject) != before.username
    ):
        _log.warning("oidc_sign_in_refused", because="somebody_else")
        return signin_page(request, services, return_to, problem=_SOMEBODY_ELSE)
    signed_in = await principals.sign_in_with(
        identity, provider.tenant, seconds=SECONDS, proven_for=return_to if before is not None else None
    )
    if not isinstance(signed_in, tuple):
        _log.warning("oidc_sign_in_refused", because=signed_in)
        return signin_page(request, services, return_to, problem=_REFUSALS[signed_in])
    if before is not None:
        # Whoever else holds the secret of the session from before has proven nothing by this.
        await principals.sign_out(request.cookies[COOKIE])
    response = RedirectResponse(return_to, HTTPStatus.SEE_OTHER)
    keep(response, services, COOKIE, signed_in[0], seconds=SECONDS)
    return response


def _provider(services: Context) -> Provider:
    if services.oidc is None:
        raise _NOT_SET_UP
    return services.oidc


def _response_parameters(request: Request) -> Mapping[str, str] | None:
    """None for a query that is too long, or has a parameter twice: nobody can say which one is meant."""
    pairs = request.query_params.multi_items()
    parameters = dict(pairs)
    if len(parameters) != len(pairs) or len(request.url.query) > _LONGEST * 4 or "\0" in "".join(parameters.values()):
        return None
    return parameters


def _unavailable(request: Request, services: Context, return_to: str, problem: ProviderUnavailableError) -> Response:
    _log.error("oidc_provider_unavailable", problem=problem.problem)
    return signin_page(request, services, return_to, problem=_AWAY)


def _without_state(services: Context, response: Response) -> Response:
    """Whatever came of it, what began it is used up."""
    forget(response, services, _STATE_COOKIE)
    return response
