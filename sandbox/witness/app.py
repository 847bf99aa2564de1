"""`POST /add-checkpoint` of https://c2sp.org/tlog-witness."""

import asyncio
import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from sandbox.witness.consistency import is_consistent
from sandbox.witness.notes import Checkpoint, Cosigner, LogKey, Malformed, hash_in, size_in
from sandbox.witness.state import Folder, Seen

MAX_BODY_BYTES = 128 * 1024
MAX_PROOF_LINES = 63
_NEXT_KEY = "next-key "


class Refused(Exception):
    """A checkpoint is not cosigned. `size`: that of the newest one that was, where the answer says it."""

    def __init__(self, status: int, why: str, size: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.size = size


@dataclass(frozen=True)
class Submission:
    """The body of a request."""

    old_size: int
    proof: tuple[bytes, ...]
    checkpoint: Checkpoint

    @classmethod
    def parse(cls, body: bytes) -> "Submission":
        """Raises Malformed."""
        try:
            head, blank, note = body.decode().partition("\n\n")
        except UnicodeDecodeError:
            raise Malformed("that is no UTF-8") from None
        old, *proof = head.split("\n")
        if not blank or not old.startswith("old ") or len(proof) > MAX_PROOF_LINES:
            raise Malformed("that is no old size, at most 63 lines of proof, and an empty line")
        return cls(size_in(old[4:]), tuple(hash_in(line) for line in proof), Checkpoint.parse(note))


class Witness:
    """Cosigns what goes on from all that it cosigned before."""

    def __init__(
        self, folder: Folder, cosigner: Cosigner, logs: Iterable[LogKey], now: Callable[[], float] = time.time
    ) -> None:
        """`logs`: the keys that are trusted from the start. Raises Unusable where the folder is damaged."""
        self._folder = folder
        self._cosigner = cosigner
        self._now = now
        self._logs: dict[str, set[LogKey]] = {}
        for key in logs:
            self._logs.setdefault(key.name, set()).add(key)
        self._seen = {origin: folder.seen(origin) for origin in self._logs}
        self._locks = {origin: threading.Lock() for origin in self._logs}

    def add(self, submission: Submission) -> str:
        """The cosignature's line, once the checkpoint is kept. Raises Refused, and OSError when it cannot be kept."""
        checkpoint = submission.checkpoint
        lock = self._locks.get(checkpoint.origin)
        if lock is None:
            raise Refused(404, "that log is not known here")
        # What is compared must still be so when the new one is kept.
        with lock:
            seen = self._seen[checkpoint.origin]
            signer = checkpoint.signer(self._trusted(checkpoint, seen))
            if signer is None:
                raise Refused(403, "no key signed that, of those that are trusted for this log")
            _compare(submission, seen)
            after = dataclasses.replace(seen, size=checkpoint.size, root=checkpoint.root, note=checkpoint.note)
            after = _rotated(after, checkpoint, signer)
            if after != seen:
                self._folder.keep(checkpoint.origin, after)
                self._seen[checkpoint.origin] = after
        return self._cosigner.cosign(checkpoint.text, int(self._now()))

    def _trusted(self, checkpoint: Checkpoint, seen: Seen) -> set[LogKey]:
        keys = self._logs[checkpoint.origin] | seen.followed
        # An answer that was lost is asked for again, also about the last checkpoint of a key.
        return keys if checkpoint.text == seen.text else keys - seen.retired


def _compare(submission: Submission, seen: Seen) -> None:
    """Whether the checkpoint goes on from what was seen. Raises Refused."""
    old, checkpoint = submission.old_size, submission.checkpoint
    if old > checkpoint.size:
        raise Refused(400, "the old size is larger than the checkpoint's")
    if old != seen.size:
        raise Refused(409, "the newest checkpoint that was cosigned has another size", seen.size)
    if old == checkpoint.size and checkpoint.root != seen.root:
        raise Refused(409, "a checkpoint of that size and another root was cosigned", seen.size)
    if not is_consistent(old, checkpoint.size, seen.root, checkpoint.root, submission.proof):
        raise Refused(422, "the proof does not lead from the one to the other")


def _rotated(seen: Seen, checkpoint: Checkpoint, signer: LogKey) -> Seen:
    """Beyond C2SP: in a line `next-key VKEY` a log names the key that signs from now on, and gives up its own."""
    named = [line.removeprefix(_NEXT_KEY) for line in checkpoint.extensions if line.startswith(_NEXT_KEY)]
    try:
        following = LogKey.parse(named[0]) if len(named) == 1 else None
    except Malformed:
        following = None
    if following is None or following.name != checkpoint.origin or following in seen.retired | {signer}:
        return seen
    return dataclasses.replace(seen, followed=seen.followed | {following}, retired=seen.retired | {signer})


def create_app(witness: Witness) -> Starlette:
    """The witness's HTTP interface."""

    async def add_checkpoint(request: Request) -> Response:
        try:
            submission = Submission.parse(await _body(request))
            return PlainTextResponse(await asyncio.to_thread(witness.add, submission))
        except Malformed as problem:
            return PlainTextResponse(f"{problem}\n", 400)
        except Refused as problem:
            if problem.size is None:
                return PlainTextResponse(f"{problem}\n", problem.status)
            return Response(f"{problem.size}\n", problem.status, {"Content-Type": "text/x.tlog.size"})

    return Starlette(routes=[Route("/add-checkpoint", add_checkpoint, methods=["POST"])])


async def _body(request: Request) -> bytes:
    """Raises Malformed when it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            raise Malformed("that is too large")
    return bytes(body)
