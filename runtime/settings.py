"""Settings, from the environment alone (`COUNTERSEAL_…`; Temporal's and OpenTelemetry's own variables are theirs)."""

import json
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, TypeAdapter, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.mcp.origins import is_origin
from api.pages.links import is_trace_url, origin_of
from policy.load import DEFAULT_POLICY
from runtime.systems import read_systems
from runtime.upstreams import UpstreamsText, read_upstreams

_ROLES = TypeAdapter(dict[str, list[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_-]{0,63}$")]]])


BuildId = Annotated[str, Field(pattern=r"^([A-Za-z0-9][A-Za-z0-9._-]{0,99})?$")]


class SettingsError(Exception):
    """What is missing or wrong, one line per variable; never a value."""


class Settings(BaseSettings):
    """Every setting of the service's processes."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSEAL_", extra="ignore", frozen=True)

    database_url: SecretStr
    """`postgresql://user:password@host:port/database`"""
    master_key_file: Path | None = None
    """A file with 32 random bytes in base64; everything secret is derived from it or wrapped by it. With several, one a
    line, the first one is used and the others open what they sealed."""
    master_key: SecretStr | None = None
    """The same bytes themselves, in the place of a file; several separated by spaces."""
    master_key_kms: str = ""
    """`aws:KEY`, where the file holds, a line each, what AWS KMS sealed the bytes to under that key (its id, ARN or
    alias)."""
    task_queue: str = "counterseal"
    """Temporal's task queue of the workflows; effects run on `{task_queue}-payments`, `-orders` and `-messages`."""
    build_id: BuildId = ""
    """Which build of the service this is, e.g. its version and commit. With it workers are versioned: a call ends on
    the build that began it, new ones begin on the one that `counterseal versions promote` named, and both run side by
    side. Without it every worker takes every call."""
    tenant: str = "default"
    """Whose people and tokens `users add` and `tokens issue` make where `--tenant` is not given; its operators find the
    diagnostics of callers that nobody knows."""

    api_host: str = "127.0.0.1"
    """The address that the API listens on."""
    api_port: Annotated[int, Field(ge=1, le=65535)] = 8080
    """The port that the API listens on."""
    public_url: str = "http://127.0.0.1:8080"
    """Where people reach the web form."""
    mcp_allowed_hosts: str = ""
    """Host headers, separated by commas, by which `/mcp` may be reached beside the host of the public URL, e.g.
    `counterseal.internal:8080`. Where the public URL is of this machine, all its own names are allowed."""
    mcp_allowed_origins: str = ""
    """Origins of web pages, separated by commas, that may use `/mcp` beside that of the public URL, e.g.
    `https://agents.example.com`."""
    trusted_proxies: str = ""
    """Addresses or networks of proxies, separated by commas, whose `X-Forwarded-For` and `X-Forwarded-Proto` are
    believed. Without any, a caller's address is the connection's own."""
    failed_authentications_per_minute: Annotated[int, Field(ge=1)] = 30
    """How many failed authentications of one address are answered with 401; further ones with 429."""
    failed_authentications_per_hour: Annotated[int, Field(ge=1)] = 300
    """The same for an hour."""
    invalid_calls_per_minute: Annotated[int, Field(ge=1)] = 60
    """How many invalid calls of one token's holder (of a run, each run) are explained; further ones get 429."""
    invalid_calls_per_hour: Annotated[int, Field(ge=1)] = 600
    """The same for an hour."""
    address_invalid_calls_per_minute: Annotated[int, Field(ge=1)] = 600
    """How many invalid calls are explained to all token holders behind one address."""
    address_invalid_calls_per_hour: Annotated[int, Field(ge=1)] = 6000
    """The same for an hour."""
    calls_at_once: Annotated[int, Field(ge=1, le=10_000)] = 32
    """On how many tool calls of a tenant an API process works at once; a quarter more are left to other tenants. One
    more waits up to two seconds for another to settle or park; then it gets 503 with `Retry-After`, and nothing was
    begun."""
    oidc_issuer: str = ""
    """The OpenID provider that people can sign in with, by its issuer identifier, e.g. `https://login.example.com`; its
    discovery document is read from there. Without one there are local accounts alone."""
    oidc_client_id: str = ""
    """What the provider calls this service; needed with an issuer."""
    oidc_client_secret: SecretStr | None = None
    """The client's secret; none for a public client."""
    oidc_scopes: str = "openid profile email"
    """What is asked for, separated by spaces."""
    oidc_username_claim: str = "preferred_username"
    """What an account is called that is made at a first sign-in. It never finds an existing one. With `email` the
    address has to be verified."""
    oidc_groups_claim: str = "groups"
    """The claim with a person's groups: texts in a list, or one text."""
    oidc_roles: str = "{}"
    """Which roles a group grants, as JSON: `{"refund-approvers": ["finance"], "platform": ["operator"]}`. Without any
    nobody gets an account by signing in, and operators say what the roles of linked ones are."""
    temporal_ui_url: str | None = None
    """Where people reach Temporal's UI: pages link to a call's workflow there, and its pages alone may have payloads
    decoded by `{public_url}/codec` for an operator who is signed in."""
    trace_url: str = ""
    """Where people see a trace, with `{trace_id}` where its id belongs, e.g.
    `https://traces.example.com/trace/{trace_id}`; the page of a call links to its trace there."""
    eager_start: bool = False
    """The API process also works off workflows, so that free calls start and run in it without another hop. It then
    holds the credentials of the remote systems."""

    policy: Path = DEFAULT_POLICY
    """A policy file, or a folder of them; or `published`: the policy that `counterseal policy publish` or people put in
    force, which running processes take up within a second."""
    shadow_policy: Path | None = None
    """A candidate that is asked beside the policy in force, about the same calls: a file, a folder, or the version of
    one that the ledger keeps. What it says is written down, and nothing comes of it."""
    tools_path: Path | None = None
    """A folder with a team's own tools."""

    payment_gateway: str = "sandbox"
    """`sandbox`, `stripe` or `paypal`."""
    sandbox_gateway_url: str | None = None
    """Base URL of the sandbox's gateway; needed where the gateway is `sandbox`."""
    sandbox_gateway_key: SecretStr | None = None
    """The key that the sandbox's gateway expects."""
    sandbox_webhook_secret: SecretStr | None = None
    """The secret that the sandbox's gateway signs its webhooks with; without one they are not taken."""
    stripe_api_base: str = "https://api.stripe.com"
    """Base URL of the Stripe API."""
    stripe_api_key: SecretStr | None = None
    """A Stripe key that may read payments and create refunds; needed where the gateway is `stripe`."""
    stripe_webhook_secret: SecretStr | None = None
    """The secret (`whsec_…`) of the endpoint `{public_url}/v1/webhooks/stripe` at Stripe; several, separated by
    commas, while one replaces another. Without one no webhooks are taken."""
    paypal_api_base: str = "https://api-m.paypal.com"
    """Base URL of the PayPal API."""
    paypal_client_id: str | None = None
    """The client id of a PayPal app that may read payments and disputes and refund captures; needed where the gateway
    is `paypal`."""
    paypal_client_secret: SecretStr | None = None
    """That app's secret."""
    paypal_webhook_id: str | None = None
    """The id that PayPal gave the webhook `{public_url}/v1/webhooks/paypal`. Without one no webhooks are taken."""
    paypal_webhook_authorities: Path | None = None
    """A PEM file of the authorities that PayPal's signing certificates chain to, in place of the usual ones."""
    store_url: str | None = None
    """Base URL of the order system."""
    store_key: SecretStr | None = None
    """The bearer key that the order system expects."""
    helpdesk_url: str | None = None
    """Base URL of the helpdesk, whose API is Zendesk's, e.g. `https://example.zendesk.com`. Without it its tools are
    refused."""
    helpdesk_key: SecretStr | None = None
    """An OAuth access token of the helpdesk that may read articles, tickets and their audits and update tickets."""
    systems: str = "{}"
    """More remote systems that tools may name, as JSON: `{"bank": "https://api.bank.example"}`. Their credentials are
    in the vault, under these names."""
    upstreams: Path | None = None
    """A file that names MCP servers whose tools are offered through manifests: where each is, or the program that it
    is. Their credentials are in the vault, under their names."""
    private_networks: str = ""
    """Which of `payments`, `orders`, `helpdesk`, those of `systems`, `identity` (the OpenID provider) and `witnesses`,
    separated by commas, may be on a private network or this machine. The others are connected to at public addresses
    only."""
    trace_systems: str = ""
    """Which of them, separated by commas, are sent the `traceparent` of the exchange, so that their spans belong to the
    same trace: for systems of your own. Nobody else is told of your traces."""
    exchange_seconds: Annotated[float, Field(gt=0, le=50)] = 10.0
    """Total deadline of one exchange with a remote system."""
    absence_seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """How long after it was sent an effect may still appear where its system lists it; what is not there then is absent
    and, as the policy says, is sent again under the same key or given to a person."""
    review_seconds: Annotated[float, Field(gt=0, le=604_800)] = 3600.0
    """How long after it was first sent a person is asked about an effect that cannot be looked up."""

    checkpoints_file: Path | None = None
    """A file to which every checkpoint of the ledger is appended, outside of the database; best where this host can
    append and not rewrite. With it a process refuses to start on a ledger that is older than the last one."""
    witnesses: str = ""
    """Witnesses that every checkpoint is sent to, each as `KEY URL` (its verifier key and where it is), separated by
    commas."""

    notices_file: Path | None = None
    """A file that says over which channels people are told of what; without it nobody is told. It holds no secret."""
    notices_days: Annotated[int, Field(ge=2, le=3650)] = 30
    """How long it is kept which notices were delivered, and which could not be."""

    diagnostics_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """How long the protected diagnostics of failures and refusals are kept."""
    edge_diagnostics_per_hour: Annotated[int, Field(ge=0)] = 3600
    """Of how many requests that were refused at the edge each API process keeps a diagnostic; the rest is counted."""

    metrics_access: Literal["operator", "anyone"] = "operator"
    """Who may read the API's `/metrics`: `operator`, holders of such a token of `COUNTERSEAL_TENANT`; or `anyone` who
    reaches it."""
    metrics_port: Annotated[int, Field(ge=0, le=65535)] = 0
    """A port of its own on which a process serves its metrics to Prometheus, without a token; 0 for none."""
    metrics_host: str = "127.0.0.1"
    """The address that this port listens on."""
    traces_file: Path | None = None
    """Spans are appended here as JSON lines, beside whatever the OTEL_ variables configure."""
    ready_file: Path | None = None
    """Touched by a worker once it polls."""
    crash_points: str = ""
    """For the fault machine alone: where a process kills itself in the middle of a call; see `docs/reliability.md`."""
    log_level: Annotated[str, Field(pattern="^(DEBUG|INFO|WARNING|ERROR)$")] = "INFO"
    """`DEBUG`, `INFO`, `WARNING` or `ERROR`."""

    @field_validator("trusted_proxies")
    @classmethod
    def _are_networks(cls, value: str) -> str:
        try:
            for each in _split(value):
                ip_network(each)
        except ValueError:
            raise ValueError("must be IP addresses or networks, separated by commas") from None
        return value

    @field_validator("mcp_allowed_origins")
    @classmethod
    def _are_origins(cls, value: str) -> str:
        if not all(map(is_origin, _split(value))):
            raise ValueError("must be origins such as https://agents.example.com, separated by commas")
        return value

    @field_validator("temporal_ui_url")
    @classmethod
    def _is_a_web_address(cls, value: str | None) -> str | None:
        if value and origin_of(value) is None:
            raise ValueError("must be an http or https URL")
        return value

    @field_validator("trace_url")
    @classmethod
    def _has_a_place_for_the_trace(cls, value: str) -> str:
        if value and not is_trace_url(value):
            raise ValueError("must be an http or https URL with {trace_id} in it, and no other braces")
        return value

    @field_validator("systems")
    @classmethod
    def _have_places(cls, value: str) -> str:
        read_systems(value)
        return value

    @field_validator("upstreams")
    @classmethod
    def _are_upstreams(cls, value: Path | None) -> Path | None:
        if value is not None:
            read_upstreams(value)
        return value

    @field_validator("oidc_issuer")
    @classmethod
    def _is_an_issuer(cls, value: str) -> str:
        if value and not _is_issuer(value):
            raise ValueError("must be an https URL without query or fragment; http only for an address of this machine")
        return value

    @field_validator("oidc_scopes")
    @classmethod
    def _are_scopes(cls, value: str) -> str:
        if "openid" not in value.split():
            raise ValueError("must have openid among them")
        return value

    @field_validator("oidc_roles")
    @classmethod
    def _are_roles(cls, value: str) -> str:
        try:
            _ROLES.validate_python(json.loads(value))
        except ValueError:
            raise ValueError("must be a JSON object of groups, each with a list of roles") from None
        return value

    @model_validator(mode="after")
    def _is_registered(self) -> "Settings":
        if self.oidc_issuer and not self.oidc_client_id:
            raise ValueError("COUNTERSEAL_OIDC_CLIENT_ID is needed with COUNTERSEAL_OIDC_ISSUER")
        return self

    @model_validator(mode="after")
    def _are_known_systems(self) -> "Settings":
        called = ["payments", "orders", "helpdesk", *self.own_systems()]
        known = [*called, "identity", "witnesses"]
        if not set(known).issuperset(self.private_systems()):
            raise ValueError(f"COUNTERSEAL_PRIVATE_NETWORKS must be some of {', '.join(known)}, separated by commas")
        if not set(called).issuperset(self.traced_systems()):
            raise ValueError(f"COUNTERSEAL_TRACE_SYSTEMS must be some of {', '.join(called)}, separated by commas")
        return self

    def own_systems(self) -> Mapping[str, str]:
        """`systems`, name -> base URL."""
        return read_systems(self.systems)

    def own_upstreams(self) -> UpstreamsText:
        """What the file `upstreams` says."""
        return UpstreamsText() if self.upstreams is None else read_upstreams(self.upstreams)

    def roles_of_groups(self) -> Mapping[str, frozenset[str]]:
        """`oidc_roles`, group -> roles."""
        return {group: frozenset(roles) for group, roles in _ROLES.validate_json(self.oidc_roles).items()}

    def private_systems(self) -> list[str]:
        """`private_networks`, one by one."""
        return _split(self.private_networks)

    def traced_systems(self) -> list[str]:
        """`trace_systems`, one by one."""
        return _split(self.trace_systems)

    def mcp_hosts(self) -> tuple[str, ...]:
        """`mcp_allowed_hosts`, one by one."""
        return tuple(_split(self.mcp_allowed_hosts))

    def mcp_origins(self) -> tuple[str, ...]:
        """`mcp_allowed_origins`, one by one."""
        return tuple(_split(self.mcp_allowed_origins))

    def proxies(self) -> list[str]:
        """`trusted_proxies`, one by one."""
        return _split(self.trusted_proxies)


def _is_issuer(text: str) -> bool:
    """https://openid.net/specs/openid-connect-core-1_0.html#IssuerIdentifier"""
    try:
        parts = urlsplit(text)
        host = parts.hostname or ""
        plain = text.isascii() and text.isprintable() and not (parts.query or parts.fragment or parts.username)
        if parts.scheme == "http":
            return plain and (host == "localhost" or ip_address(host).is_loopback)
        return plain and parts.scheme == "https" and bool(host)
    except ValueError:
        return False


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def load(**given: Any) -> Settings:
    """Read and check the environment; what is `given` comes before it. Raises SettingsError."""
    try:
        return Settings(**given)
    except ValidationError as problem:
        lines = [
            f"COUNTERSEAL_{'_'.join(str(part) for part in error['loc']).upper()}: {error['msg']}"
            if error["loc"]
            else error["msg"]
            for error in problem.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise SettingsError("; ".join(lines)) from None
