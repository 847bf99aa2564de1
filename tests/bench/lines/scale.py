"""The same load through two APIs and three workers, on the same cores."""

import collections
import time
from contextlib import ExitStack

import httpx

from runtime.stack.ports import HOST, PortClaims
from tests.bench.figures import Figure
from tests.bench.lab import FREE, Lab, Taken, saturate
from tests.bench.product import Product

_MORE_WORKERS = 2
_STARTED_WITHIN = 60.0


def measure(lab: Lab) -> list[Figure]:
    own, scale = lab.product(), lab.scale
    one, two = Taken(), Taken()
    with ExitStack() as opened:
        lab.say("scale: starting one API and two workers more")
        other, pids = _more(own, opened)
        for n in range(scale.rounds):
            lab.say(f"scale: round {n + 1} of {scale.rounds}")
            saturate(one, own.refunds(scale.many, FREE), [*own.pids, *pids], "200 executed")
            saturate(two, own.refunds(scale.many, FREE, (own.url, other)), [*own.pids, *pids], "200 executed")
        twice = _repeated(own)
    beside = f"{two.rate:.1f}/s to {one.rate:.1f}/s"
    return [
        Figure("rate of two APIs and three workers, to one and one", two.rate / one.rate, "×", beside=beside),
        Figure("CPU of a call", two.cpu, "ms", beside=f"through one API {one.cpu:.1f} ms"),
        Figure("keys that the gateway saw more than once", twice, "", 0, "most"),
    ]


def _more(own: Product, opened: ExitStack) -> tuple[str, list[int]]:
    """(URL of the other API, pids of all that was started)"""
    port = opened.enter_context(PortClaims()).claim_any()
    api = opened.enter_context(own.another("api", "api-2", COUNTERSEAL_API_PORT=str(port)))
    workers = [opened.enter_context(own.another("worker", f"worker-{n + 2}")) for n in range(_MORE_WORKERS)]
    url, until = f"http://{HOST}:{port}", time.monotonic() + _STARTED_WITHIN
    while not _is_ready(url):
        if time.monotonic() > until:
            raise RuntimeError("the second API did not start, see its log")
        time.sleep(0.1)
    return url, [each.pid for each in (api, *workers)]


def _is_ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/readyz", trust_env=False).is_success
    except httpx.TransportError:
        return False


def _repeated(own: Product) -> int:
    """How many refunds the gateway was sent more than once under one key."""
    requests = own.stack.gateway("/_requests")["requests"]
    keys = collections.Counter(each["idempotency_key"] for each in requests if each["operation"] == "refund")
    return sum(times > 1 for times in keys.values())
