"""A refund that runs at once, beside plain Temporal."""

from tests.bench.figures import Figure
from tests.bench.lab import FREE, Lab, Taken, one_by_one, saturate
from tests.bench.plain.forms import FORMS

AS_IT_COMES, WRITTEN, FASTEST = FORMS
_PYTHON = "its checks, exchanges and ledger are the Python of one API process, which has one core (make profile)"


def measure(lab: Lab) -> list[Figure]:
    own, scale = lab.product(), lab.scale
    forms = [lab.plain(form) for form in FORMS]
    ours, theirs = Taken(), [Taken() for _ in forms]
    for n in range(scale.rounds):
        lab.say(f"free: round {n + 1} of {scale.rounds}")
        saturate(ours, own.refunds(scale.many, FREE), own.pids, "200 executed")
        for form, taken in zip(forms, theirs, strict=True):
            # What comes as it is takes four times as long; a quarter says as much.
            many = scale.many // 4 if form.form == AS_IT_COMES else scale.many
            asks = own.plainly(many, FREE, "/refunds", form.url)
            saturate(taken, asks, [*form.pids, *own.outside], "200 executed")
        one_by_one(ours, own.refunds(scale.few, FREE), "200 executed")
        for form, taken in zip(forms, theirs, strict=True):
            few = scale.few // 3 if form.form == AS_IT_COMES else scale.few
            one_by_one(taken, own.plainly(few, FREE, "/refunds", form.url), "200 executed")
    a, b, c = theirs

    def rate(taken: Taken) -> str:
        return f"{ours.rate:.1f}/s to {taken.rate:.1f}/s"

    def took(taken: Taken) -> str:
        return f"{ours.p50:.1f} ms to {taken.p50:.1f} ms"

    return [
        Figure("rate, to (a) as it comes", ours.rate / a.rate, "×", 4.0, "least", rate(a), _PYTHON),
        Figure("rate, to (b) as people write it", ours.rate / b.rate, "×", 1.5, "least", rate(b), _PYTHON),
        Figure("rate, to (c) the fastest form", ours.rate / c.rate, "×", 0.85, "least", rate(c), _PYTHON),
        Figure("p50 of one client, to (a)", ours.p50 / a.p50, "×", beside=took(a)),
        Figure("p50 of one client, to (b)", ours.p50 / b.p50, "×", 0.7, "most", took(b), _PYTHON),
        Figure("p50 of one client, to (c)", ours.p50 / c.p50, "×", 1.25, "most", took(c), _PYTHON),
        Figure("p99 of one client, to its own p50", ours.p99 / ours.p50, "×", 3.0, "most", f"{ours.p99:.1f} ms"),
        Figure("CPU of a call", ours.cpu, "ms", beside=f"(a) {a.cpu:.1f}, (b) {b.cpu:.1f}, (c) {c.cpu:.1f} ms"),
    ]
