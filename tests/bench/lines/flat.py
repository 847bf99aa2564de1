"""Free calls on a ledger that has been in use for a year, beside the same on a new one."""

from tests.bench.figures import Figure
from tests.bench.grown import grow
from tests.bench.lab import FREE, Lab, Taken, one_by_one, saturate


def measure(lab: Lab) -> list[Figure]:
    scale, young = lab.scale, lab.product()
    old = lab.product("grown", 1_000 + scale.rounds * (scale.many + scale.few))
    calls = grow(old, scale.events, lab.say)
    first, then = Taken(), Taken()
    for n in range(scale.rounds):
        lab.say(f"flat: round {n + 1} of {scale.rounds}")
        for own, taken in ((young, first), (old, then)):
            saturate(taken, own.refunds(scale.many, FREE), own.pids, "200 executed")
            one_by_one(taken, own.refunds(scale.few, FREE), "200 executed")
    name = f"rate with {scale.events:,} events and {calls:,} settled calls, to none"
    beside = f"{then.rate:.1f}/s to {first.rate:.1f}/s"
    return [
        Figure(name, then.rate / first.rate, "×", 0.9, beside=beside),
        Figure("p50 of one client, to none", then.p50 / first.p50, "×", beside=f"{then.p50:.1f} to {first.p50:.1f} ms"),
        Figure("CPU of a call, to none", then.cpu / first.cpu, "×", beside=f"{then.cpu:.1f} to {first.cpu:.1f} ms"),
    ]
