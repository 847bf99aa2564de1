"""One decision over the default policy."""

from tests.bench.backtest import deciding
from tests.bench.figures import Figure, p50
from tests.bench.lab import Lab


def measure(lab: Lab) -> list[Figure]:
    return [Figure("p50 of a refund's decision", p50(deciding()), "µs", 50.0, "most")]
