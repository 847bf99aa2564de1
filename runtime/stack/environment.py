"""What the stack's own processes are told, by environment variables alone."""

import os
from collections.abc import Mapping

from runtime.stack.files import DataFolder
from runtime.stack.ports import HOST
from runtime.stack.temporal import NAMESPACE

PRIVATE_NETWORKS = "COUNTERSEAL_PRIVATE_NETWORKS"
SANDBOX_SYSTEMS = "payments,orders,helpdesk"


def process_environment(
    name: str,
    folder: DataFolder,
    *,
    caller: Mapping[str, str],
    database_url: str,
    ports: Mapping[str, int],
    webhook_secret: str,
) -> dict[str, str]:
    """The environment of the process `name`.

    The caller's own variables pass through and win where a choice is theirs (gateway, policy, tools, keys, telemetry);
    addresses and files of this stack are not, and a TEMPORAL_… variable speaks of another server.
    """
    public_url = f"http://{HOST}:{ports['api']}"
    ours = caller.get("COUNTERSEAL_PAYMENT_GATEWAY", "sandbox") == "sandbox"
    choices = {
        "COUNTERSEAL_PAYMENT_GATEWAY": "sandbox",
        "COUNTERSEAL_MASTER_KEY_FILE": str(folder.keys / "master.key"),
        "COUNTERSEAL_PUBLIC_URL": public_url,
        "COUNTERSEAL_EAGER_START": "true",
        # It is reached from this machine alone.
        "COUNTERSEAL_METRICS_ACCESS": "anyone",
        "COUNTERSEAL_CHECKPOINTS_FILE": str(folder.root / "checkpoints.jsonl"),
        # The sandbox, and whatever else on this machine takes its place.
        PRIVATE_NETWORKS: SANDBOX_SYSTEMS,
        # What is not in the sandbox is not told of this stack's traces.
        "COUNTERSEAL_TRACE_SYSTEMS": SANDBOX_SYSTEMS if ours else "orders,helpdesk",
    }
    fixed = {
        "COUNTERSEAL_DATA": str(folder.root),
        "COUNTERSEAL_DATABASE_URL": database_url,
        "COUNTERSEAL_API_HOST": HOST,
        "COUNTERSEAL_API_PORT": str(ports["api"]),
        "COUNTERSEAL_TEMPORAL_UI_URL": f"http://{HOST}:{ports['temporal_ui']}",
        "COUNTERSEAL_SANDBOX_GATEWAY_URL": f"http://{HOST}:{ports['sandbox_gateway']}",
        "COUNTERSEAL_SANDBOX_WEBHOOK_SECRET": webhook_secret,
        "COUNTERSEAL_STORE_URL": f"http://{HOST}:{ports['sandbox_store']}",
        "COUNTERSEAL_HELPDESK_URL": f"http://{HOST}:{ports['sandbox_helpdesk']}",
        "COUNTERSEAL_TRACES_FILE": str(folder.traces / f"{name}.jsonl"),
        "TEMPORAL_ADDRESS": f"{HOST}:{ports['temporal']}",
        "TEMPORAL_NAMESPACE": NAMESPACE,
        "TEMPORAL_CONFIG_FILE": os.devnull,
        "PYTHONUNBUFFERED": "1",
    }
    passed = {key: value for key, value in caller.items() if not key.startswith("TEMPORAL_")}
    return choices | passed | fixed
