"""The decoder of Temporal's UI and command line: payloads of histories in, what they say out, for operators alone.

https://docs.temporal.io/production-deployment/data-encryption. Payloads are sealed under one key for all tenants, so it
is the people who run the service that may have them opened, as they may change its policy.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from hashlib import sha256
from typing import Annotated, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field, StringConstraints
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from temporalio.api.common.v1 import Payload

from api.authentication import CHALLENGE, authenticate
from api.context import Context, Services
from api.edge import only_json, parse_body, read_body
from api.openapi import BODY, answer, problems, takes
from api.pages.links import origin_of
from api.pages.rendering import OPERATOR
from api.parsing import parse
from api.problems import refuse
from api.sessions import person_of
from ledger.streams import decodings_of
from schemas.base import Model
from schemas.codes import Code
from schemas.events import HistoryDecoded
from schemas.replies import Explanation

PATH = "/codec/decode"
# Temporal refuses a payload of 2 MiB, and base64 makes a third more of it.
MAX_BYTES = 4 * 1024 * 1024
MAX_PAYLOADS = 500
_MOST_CALLS = 100
# Within a text the quotes would be escaped: no words of an agent's are taken for one.
_REQUEST_ID = re.compile(rb'"request_id":\s*"(act_[0-9a-f]{32})"')

router = APIRouter()

_Base64 = Annotated[str, StringConstraints(pattern=r"^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$")]


class EncodedPayload(Model):
    """A `temporal.api.common.v1.Payload` as protobuf writes it in JSON."""

    metadata: dict[str, _Base64] = Field(default_factory=dict[str, str])
    data: _Base64 = ""

    @classmethod
    def of(cls, payload: Payload) -> "EncodedPayload":
        metadata = {name: b64encode(value).decode() for name, value in payload.metadata.items()}
        return cls(metadata=metadata, data=b64encode(payload.data).decode())

    def payload(self) -> Payload:
        metadata = {name: b64decode(value) for name, value in self.metadata.items()}
        return Payload(metadata=metadata, data=b64decode(self.data))


class Payloads(Model):
    """Body and answer of `POST /codec/decode`."""

    payloads: Annotated[list[EncodedPayload], Field(max_length=MAX_PAYLOADS)]


class FromTemporalUi:
    """ASGI middleware: pages of Temporal's UI, and no others, may read what `PATH` answers, errors too, and may send
    the session along (https://fetch.spec.whatwg.org/#http-cors-protocol)."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        app = self._app
        if scope["type"] == "http" and scope["path"] == PATH:
            origin = origin_of(scope["app"].state.context.temporal_ui_url)
            app = CORSMiddleware(
                app,
                allow_origins=[origin] if origin else [],
                allow_methods=["POST"],
                allow_headers=["Authorization", "X-Namespace"],
                allow_credentials=True,
            )
        await app(scope, receive, send)


@router.post(
    PATH,
    responses={200: answer(Payloads, "The payloads, decoded where they are of this service"), **problems(invalid=BODY)},
    openapi_extra=takes("operator", Payloads),
)
async def decode(request: Request, services: Services) -> Response:
    """What payloads of Temporal's histories say, in the order given; what is not sealed by this service comes back as
    it is. Who asked, and for what, is recorded first. In place of the token it takes the session of an operator, on
    pages of Temporal's UI."""
    name, through = await _operator(request, services)
    _check_namespace(request, services)
    only_json(request)
    wanted = parse(Payloads, parse_body(await read_body(request, MAX_BYTES))).payloads
    sealed = [each.payload() for each in wanted]
    opened = await services.codec.decode(sealed)
    changed = [(before, after) for before, after in zip(sealed, opened, strict=True) if before != after]
    if changed:
        event = HistoryDecoded(
            principal=name,
            through=through,
            namespace=services.namespace,
            payloads=tuple(sha256(before.data).hexdigest() for before, _ in changed),
            calls=_calls([after for _, after in changed]),
        )
        await services.ledger.streams.append(services.tenant, decodings_of(services.tenant), event)
    answered = [
        given if before == after else EncodedPayload.of(after)
        for given, before, after in zip(wanted, sealed, opened, strict=True)
    ]
    return JSONResponse(Payloads(payloads=answered).model_dump())


async def _operator(request: Request, services: Context) -> tuple[str, Literal["session", "token"]]:
    """Who asks. Raises Refused: UNAUTHENTICATED for nobody, FORBIDDEN for anyone but an operator of the service's own
    tenant, and for pages of another origin.

    A session counts only with the origin of Temporal's UI, which no other page can send: the cookie comes along from
    every page of this site.
    """
    origins, allowed = request.headers.getlist("origin"), origin_of(services.temporal_ui_url)
    if any(origin != allowed for origin in origins):
        raise refuse(Code.FORBIDDEN)
    if "authorization" in request.headers:
        holder = await authenticate(request, services, "v1", "operator")
        if holder.tenant != services.tenant:
            raise refuse(Code.FORBIDDEN)
        return holder.name, "token"
    person = await person_of(request, services) if origins else None
    if person is None:
        raise refuse(Code.UNAUTHENTICATED, headers={"WWW-Authenticate": CHALLENGE})
    if OPERATOR not in person.roles or person.tenant != services.tenant:
        raise refuse(Code.FORBIDDEN)
    return person.username, "session"


def _check_namespace(request: Request, services: Context) -> None:
    """Raises Refused where the payloads are said to be of another namespace than the service's."""
    if any(each != services.namespace for each in request.headers.getlist("x-namespace")):
        said = Explanation(values={"problem": "the header X-Namespace names another namespace than this service's"})
        raise refuse(Code.INVALID_INPUT, said)


def _calls(payloads: Sequence[Payload]) -> tuple[str, ...]:
    """The calls that are named in what was decoded, as far as one event holds them."""
    found = {match.decode() for each in payloads for match in _REQUEST_ID.findall(each.data)}
    return tuple(sorted(found)[:_MOST_CALLS])
