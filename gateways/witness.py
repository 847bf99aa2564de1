"""Having a tree head cosigned by a witness: one exchange of https://c2sp.org/tlog-witness, past the egress guard."""

import asyncio
import base64
import re
from collections.abc import Sequence

import httpx

from gateways.egress import Egress, EgressDenied

DEADLINE_SECONDS = 10.0
# 16 signatures, which a reader of notes has to accept, of up to 5 kB each.
MAX_BODY_BYTES = 128 * 1024

_COSIGNATURE = re.compile(r"— [^\s+]+ [A-Za-z0-9+/]+={0,2}")
_SIZE = re.compile(rb"(?:0|[1-9][0-9]{0,18})\n")
_SIZE_TYPE = "text/x.tlog.size"
_REASONS = {403: "unknown_key", 404: "unknown_log", 422: "not_consistent"}


class WitnessAt(Exception):
    """The newest checkpoint that the witness has cosigned has this many leaves: the proof has to begin there."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class WitnessRefused(Exception):
    """Sending it again does not help. `reason`: `unknown_key` (403), `unknown_log` (404), `not_consistent` (422), or
    `other_root` (409 at the same size: it has cosigned another tree)."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WitnessUnreachable(Exception):
    """No answer, or none of use; it may have cosigned. `reason` is a word of ours, or `http_` and a status."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


async def add_checkpoint(
    client: httpx.AsyncClient,
    egress: Egress,
    name: str,
    url: str,
    old_size: int,
    proof: Sequence[bytes],
    note: str,
    *,
    deadline_seconds: float = DEADLINE_SECONDS,
) -> list[str]:
    """Have the witness cosign a checkpoint: lines of signatures, one or more, each without its newline.

    `client` is one of `gateways.client.new_client`; `egress` lists the witness's origin by `name`; `url` is its
    submission prefix. `proof` is the consistency proof (RFC 6962, 2.1.2) from `old_size` leaves to those of `note`, the
    signed checkpoint; empty where `old_size` is 0. The lines have the form of signatures; whose they are, and whether
    they hold, the caller has to see. The deadline spans everything from connecting to the last byte of the answer.

    Raises WitnessAt, WitnessRefused, WitnessUnreachable.
    """
    lines = "".join(f"{base64.b64encode(each).decode()}\n" for each in proof)
    timeout = httpx.Timeout(None, connect=deadline_seconds / 2)
    headers = {"Content-Type": "text/plain; charset=utf-8", "Accept-Encoding": "identity", "User-Agent": "counterseal"}
    try:
        request = client.build_request(
            "POST",
            f"{url.rstrip('/')}/add-checkpoint",
            content=f"old {old_size}\n{lines}\n{note}".encode(),
            headers=headers,
            timeout=timeout,
        )
    except (httpx.InvalidURL, ValueError):
        raise WitnessUnreachable("misconfigured") from None
    try:
        with egress.passage(name, request):
            async with asyncio.timeout(deadline_seconds):
                response, body = await _exchange(client, request)
    except EgressDenied:
        raise WitnessUnreachable("egress_denied") from None
    except TimeoutError:
        raise WitnessUnreachable("timeout") from None
    except (httpx.ConnectError, httpx.ConnectTimeout):
        raise WitnessUnreachable("connect_failed") from None
    except httpx.HTTPError:
        raise WitnessUnreachable("no_answer") from None
    return _read(response, body, old_size)


async def _exchange(client: httpx.AsyncClient, request: httpx.Request) -> tuple[httpx.Response, bytes]:
    response = await client.send(request, stream=True, follow_redirects=False)
    body = bytearray()
    try:
        async for chunk in response.aiter_raw():
            body += chunk
            if len(body) > MAX_BODY_BYTES:
                raise WitnessUnreachable("too_large")
    finally:
        await response.aclose()
    return response, bytes(body)


def _read(response: httpx.Response, body: bytes, old_size: int) -> list[str]:
    status = response.status_code
    if status in _REASONS:
        raise WitnessRefused(_REASONS[status])
    if status == 409:
        size = _size(response, body)
        # It knows the old tree, so it is the root that it has another of.
        raise WitnessRefused("other_root") if size in (None, old_size) else WitnessAt(size)
    if status != 200:
        raise WitnessUnreachable(f"http_{status}")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise WitnessUnreachable("unreadable") from None
    lines = text.removesuffix("\n").split("\n")
    if not text.endswith("\n") or any(_COSIGNATURE.fullmatch(line) is None for line in lines):
        raise WitnessUnreachable("unreadable")
    return lines


def _size(response: httpx.Response, body: bytes) -> int | None:
    """The size that a conflict names; None where there is none, as between two trees of the same size."""
    if response.headers.get("content-type", "").partition(";")[0].strip() != _SIZE_TYPE or not _SIZE.fullmatch(body):
        return None
    return int(body)
