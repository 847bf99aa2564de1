"""The three ASGI apps of the sandbox. In-process use: `create_apps(open_state(directory))`, then any ASGI client."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.routing import Route

from sandbox.control import Control
from sandbox.gateway import Gateway
from sandbox.helpdesk import Helpdesk
from sandbox.state import State
from sandbox.store import Store
from sandbox.store_accounts import Accounts
from sandbox.webhooks.control import WebhookControl
from sandbox.webhooks.courier import Courier

GATEWAY_KEY, STORE_KEY, HELPDESK_KEY = "SANDBOX_GATEWAY_KEY", "SANDBOX_STORE_KEY", "SANDBOX_HELPDESK_KEY"
METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE"]


class MissingKeyError(Exception):
    """A key that callers must present is not set. The message names the variable."""


@dataclass(frozen=True)
class Keys:
    """What callers must present: the gateway's secret key, the store's and the helpdesk's."""

    gateway: str
    store: str
    helpdesk: str

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "Keys":
        for name in (GATEWAY_KEY, STORE_KEY, HELPDESK_KEY):
            if not environment.get(name):
                raise MissingKeyError(f"{name} is not set")
        return cls(environment[GATEWAY_KEY], environment[STORE_KEY], environment[HELPDESK_KEY])


def create_apps(
    state: State, keys: Keys | None = None, courier: Courier | None = None
) -> tuple[Starlette, Starlette, Starlette]:
    """The gateway's, the store's and the helpdesk's app on one state. Keys come from the environment unless given.

    Webhooks go out while the courier runs. Raises MissingKeyError when the environment has no keys.
    """
    keys, courier = keys or Keys.from_environment(), courier or Courier(state)
    gateway = Gateway(state, keys.gateway, courier)
    v1 = Route("/v1/{rest:path}", gateway.v1, methods=METHODS)
    control = [*Control(state, courier).routes(), *WebhookControl(state, courier).routes()]
    store = [*Accounts(state, keys.store).routes(), *Store(state, keys.store).routes()]
    helpdesk = Helpdesk(state, keys.helpdesk).routes()
    return Starlette(routes=[v1, *control]), Starlette(routes=store), Starlette(routes=helpdesk)
