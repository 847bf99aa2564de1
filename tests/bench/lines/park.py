"""Many calls that wait for a person: how fast they come to wait, what they take, and what they slow down."""

import re
import time
from html import unescape

import httpx

from tests.bench.figures import Figure, p50, p99
from tests.bench.lab import CLIENTS, FREE, HELD, Lab, Taken, expect, one_by_one, saturate
from tests.bench.lines.decide import parked
from tests.bench.load import Ask, Plan, played
from tests.bench.processes import memory
from tests.bench.product import Product

_PLAIN = 300
"""Calls that a plain form parks each round; its rate does not depend on how many wait."""
_FIRST = 500
"""Calls that are parked before memory is read the first time: connections are open and caches full by then."""
_LOOKS = 200
_MORE = "facts are read, the policy is asked, an approval and its notices are written; the plain form starts a workflow"
_PAUSES = "one page in a hundred waits for what else is done on the two cores, in part for Python's garbage collector"


def measure(lab: Lab) -> list[Figure]:
    rounds, empty = lab.scale.rounds, lab.product()
    chunk = lab.scale.parked // rounds
    own = lab.product("parked", _FIRST + chunk * rounds + 1_000 + rounds * lab.scale.few)
    forms = [lab.plain("as people write it"), lab.plain("fastest")]
    ours, theirs = Taken(), [Taken() for _ in forms]
    lab.say(f"park: {_FIRST} to warm up")
    expect(played(Plan(own.refunds(_FIRST, HELD), clients=CLIENTS)), "202 pending_approval")
    before = memory(own.pids)
    for n in range(rounds):
        lab.say(f"park: round {n + 1} of {rounds}, {chunk:,} calls each")
        saturate(ours, own.refunds(chunk, HELD), own.pids, "202 pending_approval")
        for form, taken in zip(forms, theirs, strict=True):
            asks = empty.plainly(min(chunk, _PLAIN), HELD, "/parked", form.url)
            saturate(taken, asks, [*form.pids, *empty.outside], "200 pending_approval")
    waiting = chunk * rounds
    each = (memory(own.pids) - before) / waiting / 1024
    written, fastest = theirs
    inbox = _inbox(own)
    beside, among = Taken(), Taken()
    for n in range(rounds):
        lab.say(f"park: free calls beside {waiting:,} that wait, round {n + 1} of {rounds}")
        one_by_one(beside, empty.refunds(lab.scale.few, FREE), "200 executed")
        one_by_one(among, own.refunds(lab.scale.few, FREE), "200 executed")
    lab.say("park: restart")
    return [
        _rate("rate, to plain Temporal as people write it", ours, written, 0.8),
        _rate("rate, to its fastest form", ours, fastest, None),
        Figure("CPU of one", ours.cpu, "ms", beside=f"plain {written.cpu:.1f} and {fastest.cpu:.1f} ms"),
        Figure(f"memory of each of {waiting:,}", each, "KB", 60.0, "most", "all processes, Temporal's included"),
        Figure("inbox page, p99", p99(inbox), "ms", 50.0, "most", f"p50 {p50(inbox):.1f} ms", _PAUSES),
        Figure(
            "p50 of a free call, to an empty inbox",
            among.p50 / beside.p50,
            "×",
            1.2,
            "most",
            f"{among.p50:.1f} ms to {beside.p50:.1f} ms",
        ),
        Figure("restart to the first decision executed", _restart(own), "s", 8.0, "most"),
    ]


def _rate(name: str, ours: Taken, theirs: Taken, target: float | None) -> Figure:
    return Figure(
        name, ours.rate / theirs.rate, "×", target, "least", f"{ours.rate:.1f}/s to {theirs.rate:.1f}/s", _MORE
    )


def _inbox(own: Product) -> list[float]:
    """Milliseconds of the page that an approver sees first."""
    asks = [Ask(f"{own.url}/", headers={"Cookie": _signed_in(own)})] * _LOOKS
    return expect(played(Plan(asks)), "200").took_ms[1:]


def _signed_in(own: Product) -> str:
    """The cookie of an approver's session."""
    approver = own.stack.approver()
    with httpx.Client(base_url=own.url, trust_env=False, headers={"Origin": own.url}) as browser:
        found = re.search(r'name="csrf" value="([^"]*)"', browser.get("/signin").text)
        assert found is not None
        form = {"csrf": unescape(found[1]), "username": approver["username"], "password": approver["password"]}
        answer = browser.post("/signin", data={**form, "next": "/"})
        assert answer.status_code == 303, answer.text
        return "; ".join(f"{name}={value}" for name, value in browser.cookies.items())


def _restart(own: Product) -> float:
    """Seconds from the start command, of a stack that was stopped, until the gateway has a refund that was decided."""
    asks, payments = parked(own, 1)
    own.stop()
    began = time.monotonic()
    own.start()
    expect(played(Plan(asks, clients=CLIENTS)), "200 approved")
    own.paid(payments)
    return time.monotonic() - began
