"""What both transports have in common: which failures of httpx leave open whether something was sent, and how much is
read."""

import httpx

from counterseal_client.errors import UnexpectedAnswer
from counterseal_client.wire import NoAnswer

_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)
_LARGEST = 4 * 2**20

PLAIN = {"Accept-Encoding": "identity"}
"""Of every request: what is compressed may be a thousand times as large as what was read of it."""


def no_answer(problem: Exception) -> NoAnswer:
    """Named by its type: the texts of httpx's errors hold URLs and headers."""
    return NoAnswer(type(problem).__name__, sent=not isinstance(problem, _NOT_SENT))


def is_plain(answer: httpx.Response) -> bool:
    """Whether the body is as it was asked for. One that is compressed all the same is none of the service's: it is not
    read."""
    return answer.headers.get("content-encoding", "identity").lower() == "identity"


def grow(body: bytearray, chunk: bytes, http_status: int) -> None:
    """Take up what was read. Raises UnexpectedAnswer for more than any answer of the service has."""
    body += chunk
    if len(body) > _LARGEST:
        raise UnexpectedAnswer(http_status, "it is longer than any answer")
