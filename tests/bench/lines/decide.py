"""From an approver's decision until the gateway has the refund, beside plain Temporal's signal to activity."""

from datetime import datetime

from tests.bench.figures import Figure, p50, p99
from tests.bench.lab import HELD, Lab, expect
from tests.bench.load import Answers, Ask, Plan, played
from tests.bench.plain.forms import Plain
from tests.bench.product import Product

AT_ONCE = 50
_AGAIN = "the decision is recorded, the facts are read and the policy is asked once more before the money goes"
_PACE = 4.0
"""Decisions a second of the one client: each is over before the next."""


def measure(lab: Lab) -> list[Figure]:
    own, plain = lab.product(), lab.plain("as people write it")
    ours: list[float] = []
    theirs: list[float] = []
    for n in range(lab.scale.rounds):
        lab.say(f"decide: round {n + 1} of {lab.scale.rounds}")
        asks, subjects = parked(own, lab.scale.few // 2)
        answers = expect(played(Plan(asks, per_second=_PACE)), "200 approved")
        ours += _until_paid(own, subjects, answers)
        asks, subjects = _plainly_parked(own, plain, lab.scale.few // 2)
        answers = expect(played(Plan(asks, per_second=_PACE)), "200 approved")
        theirs += _until_paid(own, subjects, answers)
    asks, subjects = parked(own, AT_ONCE)
    expect(played(Plan(asks, clients=AT_ONCE)), "200 approved")
    paid = own.paid(subjects)
    once = sum(len(paid.get(each, [])) == 1 for each in subjects)
    ratio, beside = p50(ours) / p50(theirs), f"{p50(ours):.1f} ms to {p50(theirs):.1f} ms"
    return [
        Figure("p50 of one client, to signal and activity", ratio, "×", 1.2, "most", beside, _AGAIN),
        Figure("p99 of one client", p99(ours), "ms", beside=f"plain {p99(theirs):.1f} ms"),
        Figure(f"of {AT_ONCE} at once, paid exactly once", once, "", AT_ONCE),
    ]


def parked(own: Product, count: int) -> tuple[list[Ask], list[str]]:
    """Calls that wait for a person: the approvals to send, and the payment of each."""
    asks = own.refunds(count, HELD)
    answers = expect(played(Plan(asks, clients=4, bodies=True)), "202 pending_approval")
    parked_now = {body["request_id"] for body in answers.bodies}
    approvals = [each for each in own.waiting() if each["request_id"] in parked_now]
    return [own.approval(each) for each in approvals], [own.payment_of(each) for each in approvals]


def _plainly_parked(own: Product, plain: Plain, count: int) -> tuple[list[Ask], list[str]]:
    asks = own.plainly(count, HELD, "/parked", plain.url)
    expect(played(Plan(asks, clients=4)), "200 pending_approval")
    bodies = [ask.body or {} for ask in asks]
    return [Ask(f"{plain.url}/parked/{body['key']}/approve", body={}) for body in bodies], [
        str(body["payment_id"]) for body in bodies
    ]


def _until_paid(own: Product, payments: list[str], answers: Answers) -> list[float]:
    """Milliseconds from each request until the gateway recorded its refund."""
    paid = own.paid(payments)
    return [
        (datetime.fromisoformat(paid[payment][0]).timestamp() - began) * 1_000
        for payment, began in zip(payments, answers.began, strict=True)
    ][1:]
