"""Backups of the ledger's database: one consistent dump, and a manifest that says where the ledger stood in it."""

import asyncio
import hashlib
import os
import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import asyncpg
from pydantic import BaseModel, ConfigDict, ValidationError

from ledger.backups import NoLedger, export_snapshot, missing_roles, standing, tables
from runtime.stack.errors import StackError
from runtime.stack.files import write_private
from runtime.stack.postgres import find_binaries

DUMP, MANIFEST = "ledger.dump", "manifest.json"
_EVERYONE = {"counterseal.tenant": "*"}


class BackupError(Exception):
    """A backup that could not be made or restored. The text is ours."""


class Manifest(BaseModel):
    """What a backup holds. `rows`: how many of each table; `checkpoint`: the newest seal's, where there is one;
    `grantees`: the roles that have rights in it, which have to be there before it is restored."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    format: Literal[1] = 1
    made_at: datetime
    origin: str
    migration: str
    server: str
    events: int
    last_event: int
    seal: int
    checkpoint: str | None
    grantees: list[str]
    rows: dict[str, int]
    dump_sha256: str

    @classmethod
    def read(cls, folder: Path) -> "Manifest":
        """That of a backup whose dump is as it was written. Raises BackupError."""
        try:
            manifest = cls.model_validate_json((folder / MANIFEST).read_bytes())
            if _sha256(folder / DUMP) != manifest.dump_sha256:
                raise BackupError(f"{folder / DUMP} is not as it was written")
        except (OSError, ValidationError):
            raise BackupError(f"{folder} holds no backup that can be read") from None
        return manifest


async def back_up(database_url: str, out: Path) -> Manifest:
    """Dump the database into a new folder, as the owner of its tables. Raises BackupError, and the driver's errors."""
    _make(out)
    connection = await asyncpg.connect(database_url, server_settings=_EVERYONE)
    try:
        # One snapshot for the dump and for what the manifest says of it.
        async with connection.transaction(isolation="repeatable_read", readonly=True):
            snapshot = await export_snapshot(connection)
            said = await _said(connection)
            # Row-level security is forced on the owner too: as everyone's session it hides nothing.
            options = ["--format=custom", "--no-owner", "--enable-row-security", f"--snapshot={snapshot}"]
            await _run("pg_dump", database_url, [*options, f"--file={out / DUMP}"])
    finally:
        await connection.close()
    (out / DUMP).chmod(0o600)
    manifest = Manifest(**said, made_at=datetime.now(UTC), dump_sha256=await asyncio.to_thread(_sha256, out / DUMP))
    write_private(out / MANIFEST, manifest.model_dump_json(indent=1) + "\n")
    return manifest


def _make(folder: Path) -> None:
    try:
        folder.mkdir(mode=0o700, parents=True)
    except FileExistsError:
        raise BackupError(f"{folder} is there already: a backup gets a folder of its own") from None
    except OSError as problem:
        raise BackupError(f"{folder} cannot be made: {problem.strerror}") from None


async def restore(folder: Path, database_url: str) -> Manifest:
    """Restore a backup into an empty database, as who is to own it: all of it or nothing. Raises BackupError, and what
    the driver raises."""
    manifest = await asyncio.to_thread(Manifest.read, folder)
    connection = await asyncpg.connect(database_url, server_settings=_EVERYONE)
    try:
        if await tables(connection):
            raise BackupError("the database is not empty: a backup is restored into one without any table")
        if missing := await missing_roles(connection, manifest.grantees):
            raise BackupError(
                f"the server lacks the roles {', '.join(missing)}: make them first, see docs/operations.md"
            )
        options = ["--single-transaction", "--exit-on-error", "--no-owner"]
        await _run("pg_restore", database_url, [*options, str(folder / DUMP)])
        restored = await _said(connection)
    finally:
        await connection.close()
    differ = sorted(name for name, value in restored.items() if value != getattr(manifest, name) and name != "server")
    if differ:
        raise BackupError(f"what was restored is not what was dumped: {', '.join(differ)} differ")
    return manifest


async def _said(connection: "asyncpg.Connection[asyncpg.Record]") -> dict[str, Any]:
    try:
        return await standing(connection)
    except NoLedger:
        raise BackupError("the database has no ledger in it") from None


async def _run(program: str, database_url: str, options: Sequence[str]) -> None:
    """Its errors go to standard error; the password is in no command line."""
    url, password = _without_password(database_url)
    settings = {"PGOPTIONS": "-c counterseal.tenant=*", **({} if password is None else {"PGPASSWORD": password})}
    process = await asyncio.create_subprocess_exec(
        _find(program), f"--dbname={url}", *options, env={**os.environ, **settings}
    )
    try:
        status = await process.wait()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if status != 0:
        raise BackupError(f"{program} failed (exit status {status}), see above")


def _find(program: str) -> str:
    """The embedded server's, else the one on the path. One older than the server refuses by itself."""
    try:
        return str(find_binaries() / program)
    except StackError:
        found = shutil.which(program)
    if found is None:
        raise BackupError(f"{program} is not on the path: install Postgres's client programs")
    return found


def _without_password(database_url: str) -> tuple[str, str | None]:
    parts = urlsplit(database_url)
    host = parts.netloc.rpartition("@")[2]
    netloc = f"{parts.netloc.rpartition('@')[0].partition(':')[0]}@{host}" if "@" in parts.netloc else host
    # The options are said by PGOPTIONS, which those in a URL would replace.
    query = urlencode([(name, value) for name, value in parse_qsl(parts.query) if name != "options"])
    password = None if parts.password is None else unquote(parts.password)
    return parts._replace(netloc=netloc, query=query).geturl(), password


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
