"""What the API does without Temporal: authenticate, parse, validate, refuse."""

from dataclasses import replace

from tests.bench.figures import Figure, p50
from tests.bench.lab import CLIENTS, FREE, Lab, expect
from tests.bench.load import Plan, played
from tests.bench.processes import CpuMeter

_WHY = "a millisecond of one process each: the framework, a span, and the look-up of a token that may be revoked"


def measure(lab: Lab) -> list[Figure]:
    own, rounds = lab.product(), lab.scale.rounds
    (good,) = own.refunds(1, FREE)
    body = good.body or {}
    bad = replace(good, body={**body, "arguments": {**body["arguments"], "amount_cents": "100"}})
    rates: list[float] = []
    cpu: list[float] = []
    for n in range(rounds):
        lab.say(f"refuse: round {n + 1} of {rounds}")
        meter = CpuMeter([own.stack.info["pids"]["api"]])
        answers = expect(played(Plan([bad] * (lab.scale.refusals // rounds), clients=CLIENTS)), "422 refused")
        rates.append(answers.per_second)
        cpu.append(meter.seconds() * 1_000 / len(answers.took_ms))
    return [
        Figure("refusals of one API process", p50(rates), "/s", 1_500.0, reason=_WHY),
        Figure("CPU of the API for one", p50(cpu), "ms"),
    ]
