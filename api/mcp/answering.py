"""What every method has of its request: who asks, and that whatever goes wrong is answered with a reply of ours."""

from collections.abc import Awaitable
from typing import Any, NamedTuple, TypeVar, cast

from mcp.server import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp.types import INTERNAL_ERROR, INVALID_PARAMS
from starlette.requests import Request

from api.context import Context
from api.failures import failure
from api.problems import Refused, taken_note_of
from ledger.principals import Principal
from schemas.codes import Code
from schemas.replies import Reply

T = TypeVar("T")
RequestContext = ServerRequestContext[Any, Any]


class Caller(NamedTuple):
    request: Request
    services: Context
    run: Principal


def caller(ctx: RequestContext) -> Caller:
    """Whom the endpoint authenticated for this request."""
    request = cast(Request, ctx.request)
    return Caller(request, cast(Context, request.app.state.context), cast(Principal, request.state.principal))


async def noted(by: Caller, problem: Exception) -> Reply:
    """The reply of the refusal, or of the failure: counted, noted and logged as over HTTP."""
    refused = problem if isinstance(problem, Refused) else failure(by.request.scope, problem)
    return (await taken_note_of(by.request, by.services, refused)).reply


async def or_error(by: Caller, answer: Awaitable[T]) -> T:
    """The answer to a request that is no call. Raises MCPError in the place of whatever that raises."""
    try:
        return await answer
    except Exception as problem:  # noqa: BLE001 - the SDK would answer with its text
        raise await _protocol_error(by, problem) from None


async def _protocol_error(by: Caller, problem: Exception) -> MCPError:
    """In the words of the reply, which is its data."""
    reply = await noted(by, problem)
    code = INTERNAL_ERROR if reply.code in (Code.INTERNAL_FAILURE, Code.TEMPORARY_FAILURE) else INVALID_PARAMS
    return MCPError(code=code, message=reply.message, data=reply.model_dump(mode="json", exclude_none=True))
