"""Which gateway's webhooks are taken: the configured one's, where its secret is."""

from collections.abc import Mapping

from pydantic import SecretStr

from gateways.paypal_certificates import Certificates, Signer
from gateways.paypal_webhooks import PayPalWebhooks
from gateways.registry import webhook_reader
from gateways.webhooks import WebhookReader
from runtime.settings import Settings, SettingsError


def webhook_readers(settings: Settings) -> Mapping[str, WebhookReader]:
    """By the gateway's name; nothing without a secret. Raises SettingsError for a secret that cannot be one."""
    name = settings.payment_gateway
    if name == "paypal":
        return _paypal(settings)
    given = {"sandbox": settings.sandbox_webhook_secret, "stripe": settings.stripe_webhook_secret}.get(name)
    if given is None or not given.get_secret_value().strip():
        return {}
    secrets = tuple(SecretStr(each.strip()) for each in given.get_secret_value().split(","))
    try:
        return {name: webhook_reader(name, secrets)}
    except ValueError:
        raise SettingsError(f"COUNTERSEAL_{name.upper()}_WEBHOOK_SECRET: a secret is empty") from None


def _paypal(settings: Settings) -> Mapping[str, WebhookReader]:
    """PayPal signs with certificates of its own; what a webhook is known by is its id."""
    if not settings.paypal_webhook_id:
        return {}
    try:
        signer = Signer.of(settings.paypal_api_base, settings.paypal_webhook_authorities)
        certificates = Certificates(signer, private=settings.private_systems())
        return {"paypal": PayPalWebhooks(certificates, settings.paypal_webhook_id)}
    except ValueError as problem:
        raise SettingsError(f"COUNTERSEAL_PAYPAL_…: {problem}") from None
