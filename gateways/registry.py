"""The gateways there are, by the name that settings use. A new one is a module and one line here."""

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import httpx
from pydantic import SecretStr

from gateways.credentials import Credential, CredentialSource, OneCredential
from gateways.egress import Egress
from gateways.http import Remote, bearer
from gateways.paypal import PayPalGateway
from gateways.protocols import Helpdesk, OrderSystem, PaymentGateway
from gateways.store import StoreOrderSystem
from gateways.stripe import StripeGateway
from gateways.stripe_webhooks import StripeWebhooks
from gateways.webhooks import WebhookReader
from gateways.zendesk import ZendeskHelpdesk

PAYMENT_GATEWAYS: Mapping[str, Callable[[Remote], PaymentGateway]] = {
    "paypal": PayPalGateway,
    "sandbox": StripeGateway,
    "stripe": StripeGateway,
}
WEBHOOK_READERS: Mapping[str, Callable[[tuple[SecretStr, ...]], WebhookReader]] = {
    "sandbox": StripeWebhooks,
    "stripe": StripeWebhooks,
}
ORDER_SYSTEMS: Mapping[str, Callable[[Remote], OrderSystem]] = {
    "store": StoreOrderSystem,
}
HELPDESKS: Mapping[str, Callable[[Remote], Helpdesk]] = {
    "zendesk": ZendeskHelpdesk,
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a remote system is and how to speak to it. `propagate_trace`: not for systems of others.

    `credential_id` names the record that `api_key` comes from; accounts of exchanges hold it in the key's place. With a
    `client_id` the key is that client's secret, and the two go as HTTP Basic (RFC 7617).
    """

    base_url: str
    api_key: SecretStr | None = None
    deadline_seconds: float = 10.0
    propagate_trace: bool = False
    credential_id: str = ""
    client_id: str = ""
    credentials: CredentialSource | None = None
    """Where there is no `api_key`."""


def payment_gateway(name: str, endpoint: Endpoint, client: httpx.AsyncClient, egress: Egress) -> PaymentGateway:
    """The payment gateway of that name. Raises ValueError for an unknown name or an unusable base URL."""
    return _pick(PAYMENT_GATEWAYS, name)(_remote("payments", endpoint, client, egress))


def order_system(name: str, endpoint: Endpoint, client: httpx.AsyncClient, egress: Egress) -> OrderSystem:
    """The order system of that name. Raises ValueError for an unknown name or an unusable base URL."""
    return _pick(ORDER_SYSTEMS, name)(_remote("orders", endpoint, client, egress))


def helpdesk(name: str, endpoint: Endpoint, client: httpx.AsyncClient, egress: Egress) -> Helpdesk:
    """The helpdesk of that name. Raises ValueError for an unknown name or an unusable base URL."""
    return _pick(HELPDESKS, name)(_remote("helpdesk", endpoint, client, egress))


def remote_system(name: str, endpoint: Endpoint, client: httpx.AsyncClient, egress: Egress) -> Remote:
    """A system without an adapter: its tools say themselves what they exchange. Raises ValueError for an unusable base
    URL."""
    return _remote(name, endpoint, client, egress)


def webhook_reader(name: str, secrets: tuple[SecretStr, ...]) -> WebhookReader:
    """Reads the webhooks of that gateway. Raises ValueError for an unknown name or a secret that is none."""
    return _pick(WEBHOOK_READERS, name)(secrets)


def _pick(registry: Mapping[str, T], name: str) -> T:
    if name not in registry:
        raise ValueError(f"unknown gateway {name}; known are {', '.join(sorted(registry))}")
    return registry[name]


def _authorize(client_id: str) -> Callable[[str], str]:
    if not client_id:
        return bearer
    return lambda secret: f"Basic {base64.b64encode(f'{client_id}:{secret}'.encode()).decode()}"


def _remote(system: str, endpoint: Endpoint, client: httpx.AsyncClient, egress: Egress) -> Remote:
    if endpoint.api_key is not None:
        source: CredentialSource = OneCredential(Credential(endpoint.credential_id, endpoint.api_key))
    elif endpoint.credentials is not None:
        source = endpoint.credentials
    else:
        raise ValueError(f"there is no credential for {system}")
    return Remote(
        client,
        egress,
        system=system,
        base=endpoint.base_url,
        credentials=source,
        authorize=_authorize(endpoint.client_id),
        deadline_seconds=endpoint.deadline_seconds,
        propagate_trace=endpoint.propagate_trace,
    )
