"""oidc-provider (npm), a certified OpenID provider: https://github.com/panva/node-oidc-provider"""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.gateways.peers.programs import PEERS, node, program

CLIENT, PUBLIC_CLIENT = "counterseal", "counterseal-public"
SECRET = "secret of the tests: 100%"


@contextmanager
def start_oidc_provider(folder: Path, accounts: Path, service: str) -> Generator[str]:
    """Its issuer. `accounts` has the claims of everybody by what they type as the login; `service` is our base URL."""
    ready = folder / "ready.json"
    found = node()
    if found is None or not (PEERS / "node_modules" / "oidc-provider").exists():
        pytest.fail("oidc-provider is not installed: make peers")
    script = Path(__file__).with_name("oidc_provider.mjs")
    with program([found, str(script), str(PEERS), str(ready), str(accounts), service], ready) as urls:
        yield urls["issuer"]
