"""The ASGI app. In-process use: `create_app(open_state(directory), Client(…))`, then any ASGI client."""

import os
from collections.abc import Mapping

from starlette.applications import Starlette
from starlette.routing import Route

from sandbox.app import METHODS, MissingKeyError
from sandbox.paypal.api import Api
from sandbox.paypal.control import Control
from sandbox.paypal.tokens import Client
from sandbox.state import State

CLIENT_ID, CLIENT_SECRET = "SANDBOX_PAYPAL_CLIENT_ID", "SANDBOX_PAYPAL_CLIENT_SECRET"


def client_from_environment(token_seconds: int, environment: Mapping[str, str] = os.environ) -> Client:
    """What callers must present. Raises MissingKeyError."""
    for name in (CLIENT_ID, CLIENT_SECRET):
        if not environment.get(name):
            raise MissingKeyError(f"{name} is not set")
    return Client(environment[CLIENT_ID], environment[CLIENT_SECRET], token_seconds)


def create_app(state: State, client: Client) -> Starlette:
    api = Api(state, client)
    return Starlette(
        routes=[
            *Control(state).routes(),
            Route("/v1/oauth2/token", api.token, methods=["POST"]),
            Route("/v1/{rest:path}", api.rest, methods=METHODS),
            Route("/v2/{rest:path}", api.rest, methods=METHODS),
        ]
    )
