"""Witnesses: each is sent every checkpoint, with a proof that it goes on from the last one that it cosigned."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager, suppress

import httpx
import structlog

from gateways.client import new_client
from gateways.egress import Denial, Egress
from gateways.witness import WitnessAt, WitnessRefused, WitnessUnreachable, add_checkpoint
from ledger.checkpoints import BadCheckpoint, VerifierKey, signers
from ledger.proving import Proofs
from ledger.seals import Seal
from runtime.settings import SettingsError

_log = structlog.get_logger()
_DEADLINE_SECONDS = 10.0
_AGAIN_SECONDS = 5.0


class Witness:
    """One witness: https://c2sp.org/tlog-witness."""

    def __init__(self, key: VerifierKey, url: str, client: httpx.AsyncClient, egress: Egress, proofs: Proofs) -> None:
        self._key = key
        self._url = url
        self._client = client
        self._egress = egress
        self._proofs = proofs
        self._newest: Seal | None = None
        self._told = asyncio.Event()
        # What it cosigned last; it says so itself when this is wrong.
        self._size = 0

    def tell(self, seal: Seal) -> None:
        """There is a newer seal."""
        self._newest = seal
        self._told.set()

    async def run(self, cosigned: Callable[[str], None]) -> None:
        """Send the newest checkpoint whenever there is one, until cancelled; `cosigned` gets it cosigned."""
        while True:
            await self._told.wait()
            self._told.clear()
            seal = self._newest
            if seal is None:
                continue
            try:
                note = await self.witness(seal)
                if note is not None:
                    cosigned(note)
            except WitnessRefused as problem:
                _log.error("witness_refused", witness=self._key.name, because=str(problem))
            except Exception as problem:  # noqa: BLE001 - it must outlive whatever is away just now
                _log.warning("witness_not_reached", witness=self._key.name, error_type=type(problem).__name__)
                await asyncio.sleep(_AGAIN_SECONDS)
                self._told.set()

    async def witness(self, seal: Seal) -> str | None:
        """The checkpoint of the seal with the witness's cosignature; None when it has cosigned a newer one by now.

        Raises what `add_checkpoint` raises.
        """
        try:
            return await self._send(seal)
        except WitnessRefused as refusal:
            # It may have missed a seal in which the ledger's key named the next one.
            missed = await self._proofs.rotations(self._size, seal.number) if refusal.reason == "unknown_key" else []
            if not missed:
                raise
        for each in missed:
            with suppress(WitnessRefused):
                await self._send(each)
        return await self._send(seal)

    async def _send(self, seal: Seal) -> str | None:
        for _ in range(2):
            proof = await self._proofs.growth(self._size, seal.number)
            try:
                lines = await add_checkpoint(
                    self._client,
                    self._egress,
                    self._key.name,
                    self._url,
                    self._size,
                    proof,
                    seal.checkpoint,
                    deadline_seconds=_DEADLINE_SECONDS,
                )
            except WitnessAt as other:
                if not await self._proofs.had(other.size):
                    raise WitnessRefused(
                        f"it has seen {other.size} events, and this ledger never had as many"
                    ) from None
                if other.size > seal.size:
                    return None
                self._size = other.size
                continue
            return self._cosigned(seal, lines)
        raise WitnessUnreachable("its size changed again")

    def _cosigned(self, seal: Seal, lines: Sequence[str]) -> str:
        note = seal.checkpoint + "".join(f"{line}\n" for line in lines)
        try:
            if not signers(note, [self._key]):
                raise WitnessRefused("it answered without its cosignature")
        except BadCheckpoint:
            raise WitnessRefused("its cosignature does not hold") from None
        self._size = seal.size
        return note


@asynccontextmanager
async def open_witnesses(
    setting: str, proofs: Proofs, *, private: bool, denied: Callable[[Denial], None]
) -> AsyncGenerator[list[Witness]]:
    """The witnesses that the setting names, `KEY URL` pairs separated by commas. Raises SettingsError."""
    pairs = [pair.split() for pair in setting.split(",") if pair.strip()]
    try:
        keys = {VerifierKey.parse(key): url for key, url in pairs}
        names = {key.name: (url,) for key, url in keys.items()}
        egress = Egress(names, private=list(names) if private else [], denied=denied)
    except (ValueError, BadCheckpoint):
        raise SettingsError("COUNTERSEAL_WITNESSES: must be KEY URL pairs, separated by commas") from None
    async with new_client() as client:
        yield [Witness(key, url, client, egress, proofs) for key, url in keys.items()]
