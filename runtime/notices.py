"""Telling people: the channels of this process, and the courier that takes up what the outbox holds."""

import asyncio
import os
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import structlog
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy

from gateways.client import new_client
from gateways.egress import Denial
from ledger.ledger import Ledger
from ledger.vault import NoCredentialError, Selection, VaultLockedError, WrongMasterKeyError
from notices.channel import NotDeliveredError
from notices.file import CHANNEL, NoticesFile, NoticesFileError, load_notices
from notices.registry import Telling, open_channels
from notices.routing import digest_day, digests_for, route
from runtime.settings import SettingsError
from schemas.ids import notice_workflow_id
from schemas.notices import NoticeRef, NotifyInput

_log = structlog.get_logger()
_NOWHERE = NoticesFile(channels={}, routes=())
# What was taken up and has not ended after so long may be lost; starting what runs changes nothing.
_LOST_AFTER_SECONDS = 900.0
_PRUNE_EVERY_SECONDS = 3600.0
_TOOL = "notice"


def notices_file(path: Path | None) -> NoticesFile:
    """The file; without one nobody is told anything. Raises SettingsError."""
    if path is None:
        return _NOWHERE
    try:
        return load_notices(path)
    except NoticesFileError as error:
        raise SettingsError(f"COUNTERSEAL_NOTICES_FILE: {error}") from None


class ChannelSecrets:
    """`Secrets` from the vault and the environment, as the file names them."""

    def __init__(self, file: NoticesFile, vault: Selection, environment: Mapping[str, str]) -> None:
        self._names = {name: each.secret_name for name, each in file.channels.items()}
        self._vault = vault
        self._environment = environment

    async def secret(self, channel: str, tenant: str) -> str:
        kind, _, variable = (self._names.get(channel) or "").partition(":")
        if kind == "env":
            if given := self._environment.get(variable, "").strip():
                return given
            raise NotDeliveredError("no_credential")
        try:
            _, secret = await self._vault.select(tenant, f"{CHANNEL}{channel}", _TOOL)
        except VaultLockedError:
            raise NotDeliveredError("vault_locked") from None
        except (NoCredentialError, WrongMasterKeyError):
            raise NotDeliveredError("no_credential") from None
        return secret


@asynccontextmanager
async def open_telling(
    file: NoticesFile,
    vault: Selection,
    public_url: str,
    denied: Callable[[Denial], None] = lambda denial: None,
    environment: Mapping[str, str] = os.environ,
) -> AsyncGenerator[Telling]:
    """The channels of the file, while the context lasts. Raises SettingsError."""
    async with new_client() as client:
        try:
            channels = open_channels(file, client, ChannelSecrets(file, vault, environment), denied)
        except ValueError as problem:
            raise SettingsError(f"COUNTERSEAL_NOTICES_FILE: {problem}; private: true allows private networks") from None
        yield Telling(channels, public_url.rstrip("/"), ZoneInfo(file.zone))


class Courier:
    """Takes up what the outbox holds. Run by any process, any number of times at once: what it does is safe to repeat.

    The outbox is the truth: what was written while Temporal was away, or was lost there, is taken up when it can be.
    """

    def __init__(
        self,
        ledger: Ledger,
        temporal: Client,
        file: NoticesFile,
        task_queue: str,
        *,
        keep_days: int,
        patience: timedelta = timedelta(days=1),
    ) -> None:
        """`keep_days`: how long it is kept what was told and what could not be. `patience`: how long one is tried."""
        self._ledger = ledger
        self._temporal = temporal
        self._file = file
        self._task_queue = task_queue
        self._keep_days = keep_days
        self._patience_seconds = round(patience.total_seconds())
        self._digests_of: date | None = None
        self._prune_at = 0.0

    async def run(self, *, every_seconds: float = 1.0) -> None:
        """Work until cancelled. A database or server that is away is waited for."""
        while True:
            for work in (self.route, self.add_digests, self.start, self.prune):
                try:
                    await work()
                except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
                    _log.warning("telling_failed", work=work.__name__, error_type=type(problem).__name__)
            await asyncio.sleep(every_seconds)

    async def route(self) -> int:
        """Send what is due on its way to its channels: how many there were."""
        return await self._ledger.notices.route(lambda due: route(self._file, due))

    async def add_digests(self, now: datetime | None = None) -> None:
        """Once a day, when it is time. Which digests a day has is the ledger's to know, whoever asks how often."""
        day = digest_day(self._file, now or datetime.now(UTC))
        if day is None or day == self._digests_of:
            return
        digests = digests_for(self._file, await self._ledger.notices.groups())
        await self._ledger.notices.add_digests(digests, day)
        self._digests_of = day

    async def start(self, *, lost_after_seconds: float = _LOST_AFTER_SECONDS) -> int:
        """Start a workflow for each notice that is to be sent and has none: how many."""
        waiting = await self._ledger.notices.unstarted(lost_after_seconds)
        for notice_id in waiting:
            await self._temporal.start_workflow(
                "Notify",
                NotifyInput(
                    notice=NoticeRef(notice_id=notice_id),
                    queue=f"{self._task_queue}-messages",
                    patience_seconds=self._patience_seconds,
                ),
                id=notice_workflow_id(notice_id),
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                static_summary="Tell somebody",
            )
            await self._ledger.notices.started(notice_id)
        return len(waiting)

    async def prune(self) -> None:
        """Delete, now and then, what was closed long ago."""
        now = time.monotonic()
        if now >= self._prune_at:
            await self._ledger.notices.prune(self._keep_days)
            self._prune_at = now + _PRUNE_EVERY_SECONDS
