"""The composition root: settings in, wired services out. Everything is made here and closed here."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta

import httpx
from temporalio.client import Client, GrpcCompression, HeaderCodecBehavior
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.envconfig import ClientConfig

from activities.patience import Patience
from activities.services import Services
from gateways.egress import Egress
from gateways.http import new_client
from gateways.protocols import Systems
from gateways.registry import Endpoint, order_system, payment_gateway
from ledger.database import connect
from ledger.keys import MasterKey
from ledger.ledger import Ledger
from ledger.signing import DecisionVerifier
from runtime.codec import data_converter
from runtime.crashing import crash_at
from runtime.policy import load_checked
from runtime.settings import Settings, SettingsError
from tools.catalog import Catalog


@dataclass(frozen=True, slots=True)
class Core:
    """What every process of the service has."""

    settings: Settings
    master: MasterKey
    ledger: Ledger
    catalog: Catalog
    temporal: Client


@asynccontextmanager
async def core(settings: Settings, *, connections: int = 10) -> AsyncGenerator[Core]:
    """Connect to the database and to Temporal."""
    master = MasterKey.from_file(settings.master_key_file)
    catalog = Catalog.load(*([settings.tools_path] if settings.tools_path else []))
    database = await connect(settings.database_url.get_secret_value(), maximum=connections)
    try:
        if not await database.is_guarded():
            raise SettingsError(
                "COUNTERSEAL_DATABASE_URL: its role passes row-level security by; use counterseal_service, or another"
                " that is no superuser"
            )
        ledger = Ledger.over(database, master)
        yield Core(settings, master, ledger, catalog, await temporal_client(master))
    finally:
        await database.close()


async def temporal_client(master: MasterKey) -> Client:
    """A client configured by the standard TEMPORAL_ variables and profile file (mTLS, API keys, Temporal Cloud)."""
    config = ClientConfig.load_client_connect_config()
    target = config.setdefault("target_host", "127.0.0.1:7233")
    local = target.startswith(("127.0.0.1:", "localhost:"))
    return await Client.connect(
        **config,
        data_converter=data_converter(master),
        plugins=[OpenTelemetryPlugin()],
        header_codec_behavior=HeaderCodecBehavior.CODEC,
        grpc_compression=GrpcCompression.NONE if local else GrpcCompression.GZIP,
    )


@asynccontextmanager
async def activity_services(
    core: Core, *, inline: bool, committed: Callable[[str], None] = lambda workflow_id: None
) -> AsyncGenerator[Services]:
    """What activities work with, the outside systems' clients and credentials included."""
    settings = core.settings
    async with new_client() as client:
        yield Services(
            ledger=core.ledger,
            catalog=core.catalog,
            policy=load_checked(settings.policy, core.catalog),
            systems=_systems(settings, client),
            verifier=DecisionVerifier.of(core.master),
            task_queue=settings.task_queue,
            tenant=settings.tenant,
            inline=inline,
            committed=committed,
            patience=Patience(timedelta(seconds=settings.absence_seconds), timedelta(seconds=settings.review_seconds)),
            reached=crash_at(settings.crash_points),
        )


def _systems(settings: Settings, client: httpx.AsyncClient) -> Systems:
    payments = _payments_endpoint(settings)
    if settings.store_url is None or settings.store_key is None:
        raise SettingsError("COUNTERSEAL_STORE_URL and COUNTERSEAL_STORE_KEY are needed: the order system")
    orders = Endpoint(
        settings.store_url,
        settings.store_key,
        settings.exchange_seconds,
        propagate_trace=True,
        credential_id="settings:store_key",
    )
    try:
        egress = Egress(
            {"payments": (payments.base_url,), "orders": (orders.base_url,)}, private=settings.private_systems()
        )
    except ValueError as problem:
        raise SettingsError(f"{problem}; which may be on one, COUNTERSEAL_PRIVATE_NETWORKS says") from None
    return Systems(
        payments=payment_gateway(settings.payment_gateway, payments, client, egress),
        orders=order_system("store", orders, client, egress),
    )


def _payments_endpoint(settings: Settings) -> Endpoint:
    if settings.payment_gateway == "sandbox":
        base, key = settings.sandbox_gateway_url, settings.sandbox_gateway_key
        names = "COUNTERSEAL_SANDBOX_GATEWAY_URL and COUNTERSEAL_SANDBOX_GATEWAY_KEY"
    elif settings.payment_gateway == "paypal":
        return _paypal_endpoint(settings)
    else:
        base, key = settings.stripe_api_base, settings.stripe_api_key
        names = "COUNTERSEAL_STRIPE_API_BASE and COUNTERSEAL_STRIPE_API_KEY"
    if base is None or key is None:
        raise SettingsError(f"{names} are needed: the payment gateway is {settings.payment_gateway}")
    ours = settings.payment_gateway == "sandbox"
    name = "sandbox_gateway_key" if ours else "stripe_api_key"
    return Endpoint(base, key, settings.exchange_seconds, propagate_trace=ours, credential_id=f"settings:{name}")


def _paypal_endpoint(settings: Settings) -> Endpoint:
    client_id, secret = settings.paypal_client_id, settings.paypal_client_secret
    if not client_id or secret is None:
        names = "COUNTERSEAL_PAYPAL_CLIENT_ID and COUNTERSEAL_PAYPAL_CLIENT_SECRET"
        raise SettingsError(f"{names} are needed: the payment gateway is paypal")
    return Endpoint(
        settings.paypal_api_base,
        secret,
        settings.exchange_seconds,
        credential_id="settings:paypal_client_secret",
        client_id=client_id,
    )
