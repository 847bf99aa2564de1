"""Bearer tokens (RFC 6750), in the Authorization header only."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated, Literal

from fastapi import Depends, Request

from api.context import Context, context_of
from api.problems import refuse
from ledger.principals import Principal, TokenKind
from schemas.calls import Binding
from schemas.codes import Code
from schemas.replies import Explanation

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/=-]{1,512})")
CHALLENGE = 'Bearer realm="counterseal"'


Surface = Literal["v1", "mcp"]
"""What takes run tokens: the HTTP API, and the Model Context Protocol."""

WELL_KNOWN = "/.well-known/oauth-protected-resource"
"""https://www.rfc-editor.org/rfc/rfc9728#section-3"""


def resource_of(services: Context, surface: Surface) -> str:
    """The URL by which tokens name it (RFC 8707)."""
    return f"{services.public_url}/{surface}"


def _needs(*kinds: TokenKind) -> Callable[..., Awaitable[Principal]]:
    async def needed(request: Request) -> Principal:
        return await authenticate(request, context_of(request), "v1", *kinds)

    return needed


async def authenticate(request: Request, services: Context, surface: Surface, *kinds: TokenKind) -> Principal:
    """Who holds the token of the request. Raises Refused: UNAUTHENTICATED, also for a token that is good elsewhere
    alone; FORBIDDEN for another kind than `kinds`."""
    challenge = CHALLENGE
    if surface == "mcp":
        challenge += f', resource_metadata="{services.public_url}{WELL_KNOWN}/{surface}"'
    headers = request.headers.getlist("authorization")
    # Of two headers nobody can say which one is meant.
    offered = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
    if offered is None:
        raise refuse(Code.UNAUTHENTICATED, headers={"WWW-Authenticate": challenge})
    principal = await services.ledger.principals.authenticate(offered[1])
    if principal is None or principal.resource not in (None, resource_of(services, surface)):
        raise refuse(Code.UNAUTHENTICATED, headers={"WWW-Authenticate": f'{challenge}, error="invalid_token"'})
    request.state.principal = principal
    if principal.kind not in kinds:
        said = Explanation(allowed={"token_kind": " or ".join(kinds)})
        raise refuse(Code.FORBIDDEN, said, headers={"WWW-Authenticate": f'{challenge}, error="insufficient_scope"'})
    return principal


def binding_of(principal: Principal) -> Binding:
    """A run token's binding. Raises LookupError for another kind of principal."""
    if principal.binding is None:
        raise LookupError("only a run has a binding")
    return principal.binding


Service = Annotated[Principal, Depends(_needs("service"))]
Run = Annotated[Principal, Depends(_needs("run"))]
Approver = Annotated[Principal, Depends(_needs("approver"))]
