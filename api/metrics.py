"""The metrics of this process, for Prometheus."""

from fastapi import APIRouter, Request, Response
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import REGISTRY

from api.authentication import authenticate
from api.context import Context, Services
from api.openapi import problems
from api.problems import refuse
from schemas.codes import Code

router = APIRouter()


@router.get(
    "/metrics",
    response_class=Response,
    responses={
        200: {"description": "Prometheus' text format, or OpenMetrics", "content": {"text/plain": {}}},
        **problems(),
    },
)
async def metrics(request: Request, services: Services) -> Response:
    """What this process measures. For Prometheus: with an operator's token of the tenant that runs the service, unless
    the settings open it to anyone who reaches the API."""
    if not services.metrics_open:
        await _operator(request, services)
    encode, media_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(REGISTRY), media_type=media_type)


async def _operator(request: Request, services: Context) -> None:
    """How much goes on is told of all tenants at once, so it is for none of theirs. Raises Refused."""
    principal = await authenticate(request, services, "v1", "operator")
    if principal.tenant != services.tenant:
        raise refuse(Code.FORBIDDEN)
