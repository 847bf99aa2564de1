"""Which gateway's webhooks are taken: the configured one's, where its secret is."""

from collections.abc import Mapping

from pydantic import SecretStr

from gateways.registry import webhook_reader
from gateways.webhooks import WebhookReader
from runtime.settings import Settings, SettingsError


def webhook_readers(settings: Settings) -> Mapping[str, WebhookReader]:
    """By the gateway's name; nothing without a secret. Raises SettingsError for a secret that cannot be one."""
    name = settings.payment_gateway
    given = {"sandbox": settings.sandbox_webhook_secret, "stripe": settings.stripe_webhook_secret}.get(name)
    if given is None:
        return {}
    secrets = tuple(SecretStr(each.strip()) for each in given.get_secret_value().split(","))
    try:
        return {name: webhook_reader(name, secrets)}
    except ValueError:
        raise SettingsError(f"COUNTERSEAL_{name.upper()}_WEBHOOK_SECRET: a secret is empty") from None
