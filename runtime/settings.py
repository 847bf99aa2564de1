"""Settings, from the environment alone (`COUNTERSEAL_…`; Temporal's and OpenTelemetry's own variables are theirs)."""

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from policy.load import DEFAULT_POLICY


class SettingsError(Exception):
    """What is missing or wrong, one line per variable; never a value."""


class Settings(BaseSettings):
    """Every setting of the service's processes."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSEAL_", extra="ignore", frozen=True)

    database_url: SecretStr
    """`postgresql://user:password@host:port/database`"""
    master_key_file: Path | None = None
    """A file with 32 random bytes in base64; everything secret is derived from it or wrapped by it."""
    master_key: SecretStr | None = None
    """The same bytes themselves, in the place of a file."""
    master_key_kms: str = ""
    """`aws:KEY`, where the file holds what AWS KMS sealed the bytes to under that key (its id, ARN or alias)."""
    task_queue: str = "counterseal"
    """Temporal's task queue of the workflows; effects run on `{task_queue}-payments`, `-orders` and `-messages`."""
    tenant: str = "default"
    """Whose people and tokens `users add` and `tokens issue` make where `--tenant` is not given; its operators find the
    diagnostics of callers that nobody knows."""

    api_host: str = "127.0.0.1"
    """The address that the API listens on."""
    api_port: Annotated[int, Field(ge=1, le=65535)] = 8080
    """The port that the API listens on."""
    public_url: str = "http://127.0.0.1:8080"
    """Where people reach the web form."""
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
    temporal_ui_url: str | None = None
    """Where people reach Temporal's UI; the approval page links to a call's workflow there."""
    eager_start: bool = False
    """The API process also works off workflows, so that free calls start and run in it without another hop. It then
    holds the credentials of the remote systems."""

    policy: Path = DEFAULT_POLICY
    """A policy file, or a folder of them."""
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
    private_networks: str = ""
    """Which of `payments` and `orders`, separated by commas, may be on a private network or this machine. The others
    are connected to at public addresses only."""
    exchange_seconds: Annotated[float, Field(gt=0, le=50)] = 10.0
    """Total deadline of one exchange with a remote system."""
    absence_seconds: Annotated[float, Field(gt=0, le=86_400)] = 300.0
    """How long after it was sent an effect may still appear where its system lists it; what is not there then is absent
    and, as the policy says, is sent again under the same key or given to a person."""
    review_seconds: Annotated[float, Field(gt=0, le=604_800)] = 3600.0
    """How long after it was first sent a person is asked about an effect that cannot be looked up."""

    notices_file: Path | None = None
    """A file that says over which channels people are told of what; without it nobody is told. It holds no secret."""
    notices_days: Annotated[int, Field(ge=2, le=3650)] = 30
    """How long it is kept which notices were delivered, and which could not be."""

    diagnostics_days: Annotated[int, Field(ge=1, le=3650)] = 30
    """How long the protected diagnostics of failures and refusals are kept."""
    edge_diagnostics_per_hour: Annotated[int, Field(ge=0)] = 3600
    """Of how many requests that were refused at the edge each API process keeps a diagnostic; the rest is counted."""

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

    @field_validator("private_networks")
    @classmethod
    def _are_systems(cls, value: str) -> str:
        if not {"payments", "orders"}.issuperset(_split(value)):
            raise ValueError("must be payments, orders or both, separated by a comma")
        return value

    def private_systems(self) -> list[str]:
        """`private_networks`, one by one."""
        return _split(self.private_networks)

    def proxies(self) -> list[str]:
        """`trusted_proxies`, one by one."""
        return _split(self.trusted_proxies)


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def load() -> Settings:
    """Read and check the environment. Raises SettingsError."""
    try:
        return Settings()  # pyright: ignore[reportCallIssue]  # its fields come from the environment
    except ValidationError as problem:
        lines = [
            f"COUNTERSEAL_{'_'.join(str(part) for part in error['loc']).upper()}: {error['msg']}"
            for error in problem.errors(include_input=False, include_url=False, include_context=False)
        ]
        raise SettingsError("; ".join(lines)) from None
