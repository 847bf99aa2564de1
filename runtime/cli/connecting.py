"""Where a command finds the ledger: the running embedded stack, or a production database by the settings."""

import asyncio
import getpass
import os
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

import asyncpg
import typer
from cryptography.exceptions import InvalidTag
from pydantic import SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from api.pages.links import is_trace_url
from ledger.calls import UnknownCall
from ledger.data_keys import KeyDestroyed
from ledger.database import UNAVAILABLE, Database, connect
from ledger.keys import KeyMaterialError, MasterKey
from ledger.ledger import Ledger
from ledger.principals import Principals
from runtime.cli.errors import CommandError
from runtime.master import master_key
from runtime.stack.connection import data_folder, find_stack
from schemas.upcasting import UnknownEvent

T = TypeVar("T")

DataOption = Annotated[
    Path | None,
    typer.Option(
        "--data",
        help="Data folder of a running stack",
        show_default="the database in COUNTERSEAL_DATABASE_URL, else COUNTERSEAL_DATA or .counterseal",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON")]


class _Settings(BaseSettings):
    """The part of the settings that says where the ledger is; `migrate` needs no key."""

    model_config = SettingsConfigDict(env_prefix="COUNTERSEAL_", extra="ignore", frozen=True)

    database_url: SecretStr | None = None
    master_key_file: Path | None = None
    master_key: SecretStr | None = None
    master_key_kms: str = ""
    temporal_ui_url: str | None = None
    trace_url: str = ""


@dataclass(frozen=True, slots=True)
class Place:
    """A ledger's database (a `postgresql://` URL) and the file with its master key, None when nobody says which."""

    database_url: str
    master_key_file: Path | None

    @property
    def name(self) -> str:
        """The database without its credentials, for messages."""
        try:
            parts = urlsplit(self.database_url)
            return f"{parts.hostname}:{parts.port or 5432}{parts.path}"
        except ValueError:
            return "an unreadable database URL"

    def master(self) -> MasterKey:
        """Raises CommandError."""
        settings = _Settings()
        if self.master_key_file is None and settings.master_key is None:
            raise CommandError("COUNTERSEAL_MASTER_KEY_FILE is not set: the ledger cannot be read without its key")
        try:
            return master_key(self.master_key_file, settings.master_key, settings.master_key_kms)
        except KeyMaterialError as error:
            raise CommandError(str(error)) from None

    def key_file(self) -> tuple[Path, str]:
        """The file with the master keys, and the key management service that opens its lines; empty for none. Raises
        CommandError where the key is not in a file."""
        settings = _Settings()
        if settings.master_key is not None or self.master_key_file is None:
            raise CommandError(
                "the master key is in COUNTERSEAL_MASTER_KEY: change it there, the new one before the former one"
            )
        return self.master_key_file, settings.master_key_kms


def find_place(data: Path | None = None, database_url: str | None = None) -> Place:
    """What was asked for, else the database of the settings, else the running stack. Raises StackError without one."""
    settings = _Settings()
    if database_url is not None:
        return Place(database_url, settings.master_key_file)
    if data is None and settings.database_url is not None:
        return Place(settings.database_url.get_secret_value(), settings.master_key_file)
    return Place(find_stack(data).database, settings.master_key_file or data_folder(data).keys / "master.key")


def is_stack(data: Path | None) -> bool:
    """Whether `find_place` finds a running stack, not the database of the settings."""
    return data is not None or _Settings().database_url is None


@dataclass(frozen=True, slots=True)
class Links:
    """Where people see workflows and traces, as far as anybody says."""

    temporal_ui_url: str | None
    namespace: str
    trace_url: str


def find_links(data: Path | None) -> Links:
    """Of the settings, and of the running stack its own Temporal. Raises StackError without one."""
    settings = _Settings()
    trace_url = settings.trace_url if is_trace_url(settings.trace_url) else ""
    if not is_stack(data):
        return Links(settings.temporal_ui_url, os.environ.get("TEMPORAL_NAMESPACE", "default"), trace_url)
    stack = find_stack(data)
    return Links(stack.temporal_ui, stack.namespace, trace_url)


@asynccontextmanager
async def open_database(place: Place) -> AsyncGenerator[Database]:
    """A few connections. Raises CommandError in place of what the driver raises, there and while it is used."""
    try:
        database = await connect(place.database_url, maximum=4)
        try:
            yield database
        finally:
            await database.close()
    except asyncpg.UndefinedTableError:
        raise CommandError(f"the database {place.name} has no schema yet: run `counterseal migrate`") from None
    except (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InsufficientPrivilegeError):
        raise CommandError(f"the database {place.name} cannot be used with these credentials") from None
    except asyncpg.InvalidCatalogNameError:
        raise CommandError(f"there is no database {place.name}") from None
    except UNAVAILABLE:
        raise CommandError(f"the database {place.name} cannot be reached") from None


@asynccontextmanager
async def open_ledger(place: Place) -> AsyncGenerator[Ledger]:
    """The ledger with its key. Raises CommandError also for a call that is unknown or cannot be read any more."""
    master = place.master()
    async with open_database(place) as database:
        try:
            yield Ledger.over(database, master)
        except UnknownCall as error:
            raise CommandError(f"there is no call {error}") from None
        except InvalidTag:
            raise CommandError(
                "something in the ledger does not open: the master key is another one, or what is stored was altered"
            ) from None
        except UnknownEvent as error:
            raise CommandError(
                f"the ledger holds an event that this release does not know ({error}): use a newer one"
            ) from None
        except KeyDestroyed:
            raise CommandError("that customer was erased: what belonged to them cannot be read any more") from None


def with_ledger(data: Path | None, work: Callable[[Ledger], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the ledger that `data` or the settings mean."""

    async def run() -> T:
        async with open_ledger(find_place(data)) as ledger:
            return await work(ledger)

    return asyncio.run(run())


def with_principals(data: Path | None, work: Callable[[Principals], Coroutine[Any, Any, T]]) -> T:
    """Run `work` on the accounts and tokens; every change of them is an event, for which the key is needed."""
    return with_ledger(data, lambda ledger: work(ledger.principals))


def whoami() -> str:
    """Who runs this command, as the operating system knows them."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return "unknown"
