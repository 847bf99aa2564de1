"""The OpenID provider that the settings name."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from api.oidc import Provider, Registration
from api.oidc_claims import ClaimRules
from api.oidc_exchange import SYSTEM, Exchanges
from api.pages.openid import CALLBACK
from gateways.client import new_client
from ledger.streams import Streams
from runtime.denials import Denials
from runtime.settings import Settings


@asynccontextmanager
async def openid_provider(settings: Settings, streams: Streams) -> AsyncGenerator[Provider | None]:
    """None where people have local accounts alone. Nothing is asked of the provider until somebody signs in."""
    if not settings.oidc_issuer:
        yield None
        return
    public_url = settings.public_url.rstrip("/")
    secret = settings.oidc_client_secret
    denials = Denials(streams, settings.tenant)
    async with new_client() as client:
        yield Provider(
            Registration(
                issuer=settings.oidc_issuer,
                client_id=settings.oidc_client_id,
                client_secret=secret if secret and secret.get_secret_value() else None,
                redirect_uri=public_url + CALLBACK,
                signed_out_uri=f"{public_url}/signin",
                scopes=settings.oidc_scopes,
            ),
            ClaimRules(settings.oidc_username_claim, settings.oidc_groups_claim, settings.roles_of_groups()),
            settings.tenant,
            Exchanges(
                client,
                private=SYSTEM in settings.private_systems(),
                deadline_seconds=settings.exchange_seconds,
                denied=denials,
            ),
        )
        await denials.drain()
