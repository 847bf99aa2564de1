"""The roles that processes connect as, made as a deployment makes them."""

import os
import subprocess
from pathlib import Path
from urllib.parse import urlsplit

from runtime.stack.postgres import Postgres, find_binaries

SCRIPT = Path(__file__).parents[1] / "deploy" / "ledger" / "roles.sh"
NAMES = ("api", "worker", "sealer", "readonly")


def make_roles(server: Postgres) -> None:
    """Run the deployment's script against the server, as its superuser."""
    url = urlsplit(server.superuser_url())
    told = {
        "PGHOST": str(url.hostname),
        "PGPORT": str(url.port),
        "PGUSER": str(url.username),
        "PGPASSWORD": str(url.password),
        "PGDATABASE": "postgres",
        "PATH": f"{find_binaries()}:{os.defpath}",
        **{f"{name.upper()}_PASSWORD": _password(name) for name in NAMES},
    }
    subprocess.run(["/bin/sh", SCRIPT], env=told, check=True, capture_output=True)


def url_as(name: str, database_url: str) -> str:
    """The same database, as the role of one kind of process."""
    parts = urlsplit(database_url)
    return parts._replace(netloc=f"{name}:{_password(name)}@{parts.hostname}:{parts.port}").geturl()


def _password(name: str) -> str:
    return f"example-{name}-password"
