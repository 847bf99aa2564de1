"""PayPal as the payment gateway, as the settings choose it."""

from pathlib import Path
from typing import Any, cast

import httpx
import pytest
from pydantic import SecretStr

from gateways.paypal import PayPalGateway
from gateways.paypal_webhooks import PayPalWebhooks
from ledger.vault import NoCredentialError, Selection
from runtime import assembly
from runtime.settings import Settings, SettingsError
from runtime.webhooks import webhook_readers


def settings(**changes: Any) -> Settings:
    given: dict[str, Any] = {
        "database_url": SecretStr("postgresql://nobody@127.0.0.1/nothing"),
        "master_key_file": Path("nowhere"),
        "payment_gateway": "paypal",
        "paypal_client_id": "the_client",
        "paypal_client_secret": SecretStr("the_secret"),
        "store_url": "https://store.example.com",
        "store_key": SecretStr("key"),
    }
    return Settings.model_validate(given | changes)


class _Empty:
    """A vault with nothing in it."""

    async def select(self, tenant: str, system: str, tool: str) -> tuple[str, str]:
        raise NoCredentialError


async def test_the_gateway_is_paypals(client: httpx.AsyncClient) -> None:
    vault = cast(Selection, _Empty())
    built = assembly.outside_systems(settings(), vault, client, ("payments", "orders"))
    assert isinstance(built.payments, PayPalGateway)
    endpoint = assembly._payments_endpoint(settings())
    assert (endpoint.base_url, endpoint.client_id) == ("https://api-m.paypal.com", "the_client")
    given = assembly._payments_given(settings())
    assert given is not None
    assert (given[0], given[1].get_secret_value()) == ("settings:paypal_client_secret", "the_secret")
    assert assembly._payments_given(settings(paypal_client_secret=None)) is None


@pytest.mark.parametrize("missing", [None, ""])
def test_the_clients_id_is_needed(missing: str | None) -> None:
    with pytest.raises(SettingsError, match="COUNTERSEAL_PAYPAL_CLIENT_ID"):
        assembly._payments_endpoint(settings(paypal_client_id=missing))


def test_webhooks_are_taken_where_their_id_is_given() -> None:
    assert webhook_readers(settings()) == {}
    assert webhook_readers(settings(paypal_webhook_id="")) == {}
    (reader,) = webhook_readers(settings(paypal_webhook_id="5GP028458E2496506")).items()
    assert reader[0] == "paypal"
    assert isinstance(reader[1], PayPalWebhooks)


@pytest.mark.parametrize(
    "changes",
    [
        {"paypal_webhook_id": "a|b"},
        {"paypal_webhook_id": "A1", "paypal_webhook_authorities": Path("/nowhere/authorities.pem")},
        {"paypal_webhook_id": "A1", "paypal_api_base": "not a url"},
    ],
)
def test_what_webhooks_cannot_be_verified_with_is_said_at_the_start(changes: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="COUNTERSEAL_PAYPAL_"):
        webhook_readers(settings(**changes))
