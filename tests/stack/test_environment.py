"""What the stack's processes are told, and by whom."""

from pathlib import Path

from runtime.stack.environment import process_environment
from runtime.stack.files import DataFolder

PORTS = {
    "api": 1,
    "temporal": 2,
    "temporal_ui": 3,
    "postgres": 4,
    "sandbox_gateway": 5,
    "sandbox_store": 6,
    "sandbox_helpdesk": 7,
}


def environment(**caller: str) -> dict[str, str]:
    folder = DataFolder(Path("/data"))
    return process_environment(
        "api", folder, caller=caller, database_url="postgresql://x", ports=PORTS, webhook_secret="w"
    )


def test_everything_points_to_the_stack() -> None:
    told = environment()
    assert told["COUNTERSEAL_DATABASE_URL"] == "postgresql://x"
    assert told["TEMPORAL_ADDRESS"] == "127.0.0.1:2"
    assert told["COUNTERSEAL_SANDBOX_GATEWAY_URL"] == "http://127.0.0.1:5"
    assert told["COUNTERSEAL_SANDBOX_WEBHOOK_SECRET"] == "w"
    # The keys of the outside systems are in the vault alone.
    assert not {"COUNTERSEAL_STORE_KEY", "COUNTERSEAL_SANDBOX_GATEWAY_KEY"} & set(told)
    assert told["COUNTERSEAL_SANDBOX_WEBHOOK_SECRET"] == "w"
    assert told["COUNTERSEAL_TRACES_FILE"] == "/data/traces/api.jsonl"
    assert told["COUNTERSEAL_PAYMENT_GATEWAY"] == "sandbox"
    assert told["COUNTERSEAL_PRIVATE_NETWORKS"] == "payments,orders,helpdesk"
    assert told["COUNTERSEAL_TRACE_SYSTEMS"] == "payments,orders,helpdesk"


def test_what_is_the_callers_choice_wins() -> None:
    choices = {
        "COUNTERSEAL_PAYMENT_GATEWAY": "stripe",
        "COUNTERSEAL_STRIPE_API_KEY": "sk_test_example",
        "COUNTERSEAL_STRIPE_WEBHOOK_SECRET": "whsec_example",
        "COUNTERSEAL_POLICY": "/etc/policy.yaml",
        "COUNTERSEAL_TOOLS_PATH": "/opt/tools",
        "COUNTERSEAL_MASTER_KEY_FILE": "/etc/master.key",
        "COUNTERSEAL_PRIVATE_NETWORKS": "orders",
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
    }
    told = environment(**choices)
    assert {name: told[name] for name in choices} == choices
    # Whoever takes the sandbox's place is not told of traces.
    assert told["COUNTERSEAL_TRACE_SYSTEMS"] == "orders,helpdesk"


def test_addresses_of_other_servers_do_not_reach_the_stack() -> None:
    told = environment(
        COUNTERSEAL_DATABASE_URL="postgresql://production",
        TEMPORAL_ADDRESS="production:7233",
        TEMPORAL_API_KEY="secret",
        TEMPORAL_PROFILE="production",
    )
    assert "production" not in str(told)
    assert "TEMPORAL_API_KEY" not in told
