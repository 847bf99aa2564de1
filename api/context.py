"""What the routes work with; made by the composition root, found on the application's state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, cast

from fastapi import Depends, Request
from temporalio.client import Client
from temporalio.converter import PayloadCodec

from api.attempts import SignInAttempts
from api.diagnosing import EdgeDiagnostics
from api.limits import Limits
from api.oidc import Provider
from api.readiness import Others
from api.room import Room
from api.waiting import Waiters
from gateways.webhooks import WebhookReader
from ledger.ledger import Ledger
from ledger.signing import DecisionSigner
from policy.in_force import InForce
from tools.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Context:
    """The services behind the routes."""

    ledger: Ledger
    catalog: Catalog
    signer: DecisionSigner
    temporal: Client
    waiters: Waiters
    task_queue: str
    eager_start: bool
    public_url: str
    edge_diagnostics: EdgeDiagnostics
    codec: PayloadCodec
    """What opens payloads of Temporal."""
    policies: InForce
    """What the pages show; workers decide by their own, which is to be the same."""
    tenant: str = "default"
    """Whose people run the service: they change the policy, which holds for every tenant."""
    temporal_ui_url: str | None = None
    """Where Temporal's own web interface is; only its pages may have histories decoded in a person's session."""
    namespace: str = "default"
    trace_url: str = ""
    limits: Limits = field(default_factory=Limits)
    sign_in_attempts: SignInAttempts = field(default_factory=SignInAttempts)
    others: Others = field(default_factory=Others)
    room: Room = field(default_factory=Room)
    webhooks: Mapping[str, WebhookReader] = field(default_factory=dict[str, WebhookReader])
    """By the name of the gateway that sends them."""
    oidc: Provider | None = None
    """The OpenID provider that people can sign in with."""
    mcp_hosts: tuple[str, ...] = ()
    """Host headers that `/mcp` is reached by beside that of the public URL."""
    metrics_open: bool = False
    """Whether `/metrics` takes no token."""
    mcp_origins: tuple[str, ...] = ()
    """Origins of web pages that may use `/mcp` beside that of the public URL."""


def context_of(request: Request) -> Context:
    """The services behind the application that answers."""
    return cast(Context, request.app.state.context)


async def _context(request: Request) -> Context:
    # A coroutine: of anything else the framework makes a thread's work.
    return context_of(request)


Services = Annotated[Context, Depends(_context)]
