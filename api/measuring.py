"""What is measured of requests, and of tools as their callers see them."""

import time
from collections.abc import Generator
from contextlib import contextmanager

from opentelemetry import metrics

from api.problems import Refused
from schemas.codes import Code
from schemas.replies import Reply

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 60)
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"})
_OTHER = "_OTHER"
_meter = metrics.get_meter("counterseal.api")
# https://opentelemetry.io/docs/specs/semconv/http/http-metrics/#metric-httpserverrequestduration
_REQUESTS = _meter.create_histogram(
    "http.server.request.duration",
    unit="s",
    description="How long requests took, by route",
    explicit_bucket_boundaries_advisory=_SECONDS,
)
_TOOLS = _meter.create_histogram(
    "counterseal.tool.duration",
    unit="s",
    description="How long callers waited for the reply to a call, by tool and code",
    explicit_bucket_boundaries_advisory=_SECONDS,
)


def served(method: str, route: str | None, status: int | None, began: float) -> None:
    """A request was answered; `status` None where it was not. What a caller made up is no label: neither a path that
    leads nowhere nor a method that there is not."""
    labels: dict[str, str | int] = {"http.request.method": method if method in _METHODS else _OTHER}
    if route is not None:
        labels["http.route"] = route
    labels["http.response.status_code"] = 500 if status is None else status
    _REQUESTS.record(time.monotonic() - began, labels)


class Asked:
    """A call of a tool that is being answered."""

    def __init__(self) -> None:
        self.code = Code.INTERNAL_FAILURE

    def answered(self, reply: Reply) -> Reply:
        self.code = reply.code
        return reply


@contextmanager
def asking(tool: str) -> Generator[Asked]:
    """Measure what is answered to a call of a tool of the catalogue."""
    began, asked = time.monotonic(), Asked()
    try:
        yield asked
    except Refused as refused:
        asked.answered(refused.reply)
        raise
    finally:
        _TOOLS.record(time.monotonic() - began, {"tool": tool, "code": asked.code.value})
