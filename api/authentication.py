"""Bearer tokens (RFC 6750), in the Authorization header only."""

import re
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request

from api.context import Services
from api.problems import refuse
from ledger.principals import Principal, TokenKind
from schemas.calls import Binding
from schemas.codes import Code
from schemas.replies import Explanation

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/=-]{1,512})")
_REALM = 'Bearer realm="counterseal"'


def _needs(*kinds: TokenKind) -> Callable[..., Awaitable[Principal]]:
    async def authenticate(request: Request, services: Services) -> Principal:
        headers = request.headers.getlist("authorization")
        # Of two headers nobody can say which one is meant.
        offered = _BEARER.fullmatch(headers[0]) if len(headers) == 1 else None
        if offered is None:
            raise refuse(Code.UNAUTHENTICATED, headers={"WWW-Authenticate": _REALM})
        principal = await services.ledger.principals.authenticate(offered[1])
        if principal is None:
            raise refuse(Code.UNAUTHENTICATED, headers={"WWW-Authenticate": f'{_REALM}, error="invalid_token"'})
        request.state.principal = principal
        if principal.kind not in kinds:
            said = Explanation(allowed={"token_kind": " or ".join(kinds)})
            raise refuse(Code.FORBIDDEN, said, headers={"WWW-Authenticate": f'{_REALM}, error="insufficient_scope"'})
        return principal

    return authenticate


def binding_of(principal: Principal) -> Binding:
    """A run token's binding. Raises LookupError for another kind of principal."""
    if principal.binding is None:
        raise LookupError("only a run has a binding")
    return principal.binding


Service = Annotated[Principal, Depends(_needs("service"))]
Run = Annotated[Principal, Depends(_needs("run"))]
Approver = Annotated[Principal, Depends(_needs("approver"))]
