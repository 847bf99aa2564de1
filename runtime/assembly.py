"""The composition root: settings in, wired services out. Everything is made here and closed here."""

from collections.abc import AsyncGenerator, Callable, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, NoReturn

import httpx
from pydantic import SecretStr
from temporalio.client import Client, GrpcCompression, HeaderCodecBehavior
from temporalio.contrib.opentelemetry import OpenTelemetryPlugin
from temporalio.converter import DataConverter
from temporalio.envconfig import ClientConfig

from activities.patience import Patience
from activities.services import Services
from gateways.client import new_client
from gateways.credentials import Credential
from gateways.egress import Denial, Egress
from gateways.http import Remote
from gateways.protocols import Systems, SystemUnavailable
from gateways.registry import Endpoint, helpdesk, order_system, payment_gateway, remote_system
from gateways.upstreams import Changed
from ledger.database import connect
from ledger.keys import KeyMaterialError, MasterKey
from ledger.ledger import Ledger
from ledger.records import CallRecord
from ledger.seals import SealBroken
from ledger.signing import DecisionVerifier
from ledger.vault import Selection
from policy.in_force import InForce, PolicyUnusable
from policy.load import stored_form
from runtime.checkpoints import CheckpointFile, CheckpointFileBroken
from runtime.codec import data_converter
from runtime.crashing import crash_at
from runtime.credentials import VaultCredentials
from runtime.denials import Denials
from runtime.master import master_key
from runtime.notices import notices_file, open_telling
from runtime.policy import PUBLISHED, candidate, in_force
from runtime.quarantine import Quarantine
from runtime.settings import Settings, SettingsError
from runtime.upstreams import open_upstreams
from schemas.tools import EFFECT_QUEUES, WorkerQueue
from tools.catalog import Catalog

ORDER_SYSTEM = "store"
HELPDESK = "zendesk"


@dataclass(frozen=True, slots=True)
class Core:
    """What every process of the service has."""

    settings: Settings
    master: MasterKey
    ledger: Ledger
    catalog: Catalog
    temporal: Client
    policies: InForce


@asynccontextmanager
async def guarded_ledger(settings: Settings, *, connections: int = 10) -> AsyncGenerator[tuple[MasterKey, Ledger]]:
    """The master key, and the ledger where it is as it was sealed. Raises SettingsError."""
    try:
        master = master_key(settings.master_key_file, settings.master_key, settings.master_key_kms)
    except KeyMaterialError as problem:
        raise SettingsError(str(problem)) from None
    database = await connect(settings.database_url.get_secret_value(), maximum=connections)
    try:
        if not await database.is_guarded():
            raise SettingsError(
                "COUNTERSEAL_DATABASE_URL: its role passes row-level security by; use a member of the group of"
                " its kind of process, such as counterseal_api"
            )
        ledger = Ledger.over(database, master)
        await _is_as_sealed(ledger, checkpoint_file(settings))
        yield master, ledger
    finally:
        await database.close()


async def core_over(settings: Settings, master: MasterKey, ledger: Ledger) -> Core:
    """Connect to Temporal as well."""
    catalog = Catalog.load(*([settings.tools_path] if settings.tools_path else []))
    policies = in_force(settings.policy, ledger.policies, catalog)
    return Core(settings, master, ledger, catalog, await temporal_client(master), policies)


@asynccontextmanager
async def core(settings: Settings, *, connections: int = 10) -> AsyncGenerator[Core]:
    """Connect to the database and to Temporal."""
    async with guarded_ledger(settings, connections=connections) as (master, ledger):
        yield await core_over(settings, master, ledger)


def checkpoint_file(settings: Settings) -> CheckpointFile | None:
    return None if settings.checkpoints_file is None else CheckpointFile(settings.checkpoints_file)


async def _is_as_sealed(ledger: Ledger, file: CheckpointFile | None) -> None:
    """Nothing is appended to a ledger that lost something. Raises SettingsError."""
    try:
        await ledger.seals.check(None if file is None else file.last())
    except CheckpointFileBroken as problem:
        raise SettingsError(f"COUNTERSEAL_CHECKPOINTS_FILE: {problem}") from None
    except SealBroken as problem:
        raise SettingsError(f"the ledger is not as it was sealed: {problem}; see `counterseal ledger verify`") from None


async def temporal_client(master: MasterKey | None) -> Client:
    """A client configured by the standard TEMPORAL_ variables and profile file (mTLS, API keys, Temporal Cloud).

    Without a key it reads no payload.
    """
    config = ClientConfig.load_client_connect_config()
    target = config.setdefault("target_host", "127.0.0.1:7233")
    local = target.startswith(("127.0.0.1:", "localhost:"))
    return await Client.connect(
        **config,
        data_converter=DataConverter.default if master is None else data_converter(master),
        plugins=[OpenTelemetryPlugin()],
        header_codec_behavior=HeaderCodecBehavior.CODEC,
        grpc_compression=GrpcCompression.NONE if local else GrpcCompression.GZIP,
    )


@asynccontextmanager
async def activity_services(
    core: Core,
    *,
    inline: bool,
    queues: Collection[WorkerQueue] = EFFECT_QUEUES,
    committed: Callable[[CallRecord], None] = lambda record: None,
) -> AsyncGenerator[Services]:
    """What activities work with: the clients and credentials of those outside systems that tools on `queues` use."""
    settings = core.settings
    names = {name for entry in core.catalog.all() if entry.manifest.queue in queues for name in entry.manifest.systems}
    denials = Denials(core.ledger.streams, settings.tenant)
    quarantine = Quarantine(core.ledger.switches, core.catalog, settings.tenant)
    async with new_client() as client, AsyncExitStack() as stack:
        stack.push_async_callback(denials.drain)
        systems = None
        if names:
            systems = outside_systems(settings, core.ledger.credentials, client, names, denials, quarantine)
            watch = quarantine.watching(systems, settings.own_upstreams().check_seconds)
            await stack.enter_async_context(watch)
        telling = None
        if "messages" in queues:
            file = notices_file(settings.notices_file)
            opened = open_telling(file, core.ledger.credentials, settings.public_url, denials)
            telling = await stack.enter_async_context(opened)
        yield Services(
            ledger=core.ledger,
            catalog=core.catalog,
            policies=core.policies,
            systems=systems,
            verifier=DecisionVerifier.of(core.master),
            task_queue=settings.task_queue,
            tenant=settings.tenant,
            inline=inline,
            committed=committed,
            patience=Patience(timedelta(seconds=settings.absence_seconds), timedelta(seconds=settings.review_seconds)),
            reached=crash_at(settings.crash_points),
            telling=telling,
            shadow=await candidate(settings.shadow_policy, core.ledger.policies, core.catalog),
        )


async def say_policy(core: Core, *, by: str) -> None:
    """Have it in the ledger by which policy of its files this process decides, unless that was the last already. What
    is published is there already."""
    try:
        policy = await core.policies.now()
    except PolicyUnusable:
        return  # logged, and said on the pages; a process that waits for another one needs no start
    if core.settings.policy != PUBLISHED:
        await core.ledger.policies.begun(policy.version, stored_form(policy.document), by=by)


class _Elsewhere:
    """Stands for a system whose credential another process holds."""

    def __init__(self, system: str) -> None:
        self._system = system

    def __getattr__(self, name: str) -> NoReturn:
        raise LookupError(f"this process holds no credential for {self._system}")


class _NotThere:
    """Stands for a system that the settings name none of: whatever would work with it fails closed."""

    def __init__(self, system: str) -> None:
        self._system = system

    def __getattr__(self, name: str) -> NoReturn:
        raise SystemUnavailable(self._system, "not_configured")


def outside_systems(
    settings: Settings,
    vault: Selection,
    client: httpx.AsyncClient,
    names: Collection[str],
    denied: Callable[[Denial], None] = lambda denial: None,
    changed: Callable[[Changed], None] = lambda change: None,
) -> Systems:
    """The remote systems of these names, as the settings say where they are; of the helpdesk there may be none.
    `denied` is told of every connection that is refused, `changed` of every upstream's tool that is not what was
    reviewed. Raises SettingsError."""
    made: dict[str, Any] = {name: _Elsewhere(name) for name in _ENDPOINTS}
    if not settings.helpdesk_url:
        made["helpdesk"] = _NotThere("helpdesk")
        names = [name for name in names if name != "helpdesk"]
    own, behind = settings.own_systems(), settings.own_upstreams().upstreams
    if both := sorted(own.keys() & behind.keys()):
        raise SettingsError(f"COUNTERSEAL_UPSTREAMS: {both[0]} is a system of COUNTERSEAL_SYSTEMS too")
    unknown = sorted(set(names) - {*_ENDPOINTS, *own, *behind})
    if unknown:
        raise SettingsError(
            f"COUNTERSEAL_SYSTEMS names no system {unknown[0]}, nor does COUNTERSEAL_UPSTREAMS; a tool's manifest does"
        )
    upstreams = {name: behind[name] for name in names if name in behind}
    names = [name for name in names if name not in behind]
    endpoints = {
        name: _own_endpoint(settings, own[name]) if name in own else _ENDPOINTS[name](settings) for name in names
    }
    made_here = {name: _GIVEN[name](settings) for name in names if name in _GIVEN}
    given = {name: Credential(*each) for name, each in made_here.items() if each is not None}
    in_vault = {"payments": settings.payment_gateway, "orders": ORDER_SYSTEM, "helpdesk": HELPDESK}
    source = VaultCredentials(vault, in_vault | {name: name for name in (*own, *upstreams)}, given)
    try:
        egress = Egress(
            {name: (each.base_url,) for name, each in endpoints.items()}
            | {name: (each.url,) for name, each in upstreams.items() if each.url is not None},
            private=[*settings.private_systems(), *(name for name, each in upstreams.items() if each.is_private)],
            denied=denied,
        )
    except ValueError as problem:
        raise SettingsError(f"{problem}; which may be on one, COUNTERSEAL_PRIVATE_NETWORKS says") from None
    remotes: dict[str, Remote] = {}
    for name, endpoint in endpoints.items():
        endpoint = replace(endpoint, credentials=source, propagate_trace=name in settings.traced_systems())
        if name in own:
            remotes[name] = remote_system(name, endpoint, client, egress)
            continue
        make, known_as = _MAKERS[name]
        made[name] = make(known_as or settings.payment_gateway, endpoint, client, egress)
    opened = open_upstreams(upstreams, upstreams, client, egress, source, changed)
    return Systems(**made, remotes=remotes, upstreams=opened)


def _payments_endpoint(settings: Settings) -> Endpoint:
    base = {
        "sandbox": settings.sandbox_gateway_url,
        "stripe": settings.stripe_api_base,
        "paypal": settings.paypal_api_base,
    }.get(settings.payment_gateway)
    if base is None:
        raise SettingsError(
            "COUNTERSEAL_SANDBOX_GATEWAY_URL is needed: the payment gateway is sandbox"
            if settings.payment_gateway == "sandbox"
            else "COUNTERSEAL_PAYMENT_GATEWAY: there is no such gateway"
        )
    client_id = settings.paypal_client_id if settings.payment_gateway == "paypal" else ""
    if client_id is None or (settings.payment_gateway == "paypal" and not client_id):
        raise SettingsError("COUNTERSEAL_PAYPAL_CLIENT_ID is needed: the payment gateway is paypal")
    return Endpoint(base, deadline_seconds=settings.exchange_seconds, client_id=client_id)


def _orders_endpoint(settings: Settings) -> Endpoint:
    if settings.store_url is None:
        raise SettingsError("COUNTERSEAL_STORE_URL is needed: the order system")
    return Endpoint(settings.store_url, deadline_seconds=settings.exchange_seconds)


def _helpdesk_endpoint(settings: Settings) -> Endpoint:
    if not settings.helpdesk_url:
        raise SettingsError("COUNTERSEAL_HELPDESK_URL is needed: the helpdesk")
    return Endpoint(settings.helpdesk_url, deadline_seconds=settings.exchange_seconds)


def _own_endpoint(settings: Settings, base: str) -> Endpoint:
    return Endpoint(base, deadline_seconds=settings.exchange_seconds)


def _payments_given(settings: Settings) -> tuple[str, SecretStr] | None:
    name = {"sandbox": "sandbox_gateway_key", "stripe": "stripe_api_key", "paypal": "paypal_client_secret"}.get(
        settings.payment_gateway
    )
    secret: SecretStr | None = None if name is None else getattr(settings, name)
    return None if secret is None else (f"settings:{name}", secret)


def _orders_given(settings: Settings) -> tuple[str, SecretStr] | None:
    return None if settings.store_key is None else ("settings:store_key", settings.store_key)


def _helpdesk_given(settings: Settings) -> tuple[str, SecretStr] | None:
    return None if settings.helpdesk_key is None else ("settings:helpdesk_key", settings.helpdesk_key)


_ENDPOINTS: Mapping[str, Callable[[Settings], Endpoint]] = {
    "payments": _payments_endpoint,
    "orders": _orders_endpoint,
    "helpdesk": _helpdesk_endpoint,
}
# How each is made, and under which name of its registry; the payment gateway's is a setting.
_MAKERS: Mapping[str, tuple[Callable[[str, Endpoint, httpx.AsyncClient, Egress], object], str]] = {
    "payments": (payment_gateway, ""),
    "orders": (order_system, ORDER_SYSTEM),
    "helpdesk": (helpdesk, HELPDESK),
}
_GIVEN: Mapping[str, Callable[[Settings], tuple[str, SecretStr] | None]] = {
    "payments": _payments_given,
    "orders": _orders_given,
    "helpdesk": _helpdesk_given,
}
