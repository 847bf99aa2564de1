"""Sealing, again and again, and keeping the checkpoints outside of the database."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from ledger.ledger import Ledger
from ledger.seals import AT_ONCE, SealBroken
from runtime.checkpoints import CheckpointFile
from runtime.witnesses import Witness

_log = structlog.get_logger()


class Sealing:
    """Run by any process, any number of times at once: whoever has the lock seals."""

    def __init__(self, ledger: Ledger, file: CheckpointFile | None, witnesses: Sequence[Witness] = ()) -> None:
        self._ledger = ledger
        self._file = file
        self._witnesses = witnesses

    async def run(self, broken: Callable[[], None], *, every_seconds: float = 1.0) -> None:
        """Seal until cancelled. A database that is away is waited for; `broken` is called, and this returns, when the
        ledger is not the one that was sealed."""
        witnessing = [asyncio.create_task(each.run(self._kept)) for each in self._witnesses]
        try:
            while True:
                try:
                    if await self.seal():
                        continue
                except SealBroken as problem:
                    _log.error("ledger_not_as_sealed", because=str(problem))
                    broken()
                    return
                except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
                    _log.warning("sealing_failed", error_type=type(problem).__name__)
                await asyncio.sleep(every_seconds)
        finally:
            for each in witnessing:
                each.cancel()

    async def seal(self) -> bool:
        """Seal once; whether there may be more to seal at once. Raises SealBroken."""
        sealed = await self._ledger.seals.seal()
        if sealed is None:
            return False
        self._kept(sealed.checkpoint)
        for each in self._witnesses:
            each.tell(sealed)
        return sealed.count >= AT_ONCE

    def _kept(self, note: str) -> None:
        """Write a checkpoint down; one that could not be is made up for by the next."""
        if self._file is None:
            return
        try:
            self._file.keep(note)
        except OSError as problem:
            _log.error("checkpoint_not_kept", error_type=type(problem).__name__)
