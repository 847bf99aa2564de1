"""What the benchmarks make of what they measured: a wrong verdict would be believed."""

import subprocess
import sys

import pytest
import yaml

from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
from tests.bench.figures import Figure, as_json, p99
from tests.bench.load import Ask, Plan, played
from tests.bench.processes import CpuMeter
from tests.bench.profile import by_step, step_of
from tests.bench.soak import Minute, growth
from tests.bench.world import write_policy
from tests.ledger.refunds import CATALOG


@pytest.mark.parametrize(
    ("value", "bound", "met"),
    [(4.0, "least", True), (3.99, "least", False), (4.0, "most", True), (4.01, "most", False)],
)
def test_a_figure_reaches_its_target_or_does_not(value: float, bound: str, met: bool) -> None:
    figure = Figure("rate", value, "×", 4.0, "least" if bound == "least" else "most")
    assert figure.met is met
    assert as_json([("line", [figure])])["line"][0]["met"] is met


def test_one_without_a_target_informs_and_is_no_failure() -> None:
    assert Figure("CPU", 12.5, "ms").met is None


def test_the_99th_percentile_is_one_of_the_values() -> None:
    assert p99([float(n) for n in range(1, 201)]) == 198.0
    assert p99([7.0]) == 7.0


@pytest.mark.parametrize(
    ("stack", "step"),
    [
        (
            "run (asyncio/runners.py:118);exchange (gateways/http.py:10);send (httpx/_client.py:9)",
            "HTTP out: httpx, gateways",
        ),
        ("admit (ledger/admission.py:1);_do_execute (asyncpg/connection.py:1)", "Postgres: asyncpg"),
        ("admit (ledger/admission.py:1);_decrypt (ledger/keys.py:1)", "encryption"),
        ("admit (activities/admitting.py:1);admit (activities/deciding.py:2)", "policy"),
        ("run (/usr/lib/python3.11/site-packages/fastapi/routing.py:3)", "HTTP in: FastAPI, Starlette, uvicorn"),
        ("main (elsewhere/module.py:1)", "other"),
        ("Thread.run (threading.py:1);_worker (concurrent/futures/thread.py:81)", None),
        ("", None),
    ],
)
def test_a_sample_belongs_to_what_is_nearest_to_what_runs(stack: str, step: str | None) -> None:
    assert step_of(stack) == step
    assert by_step([f"{stack} 3"]).total() == (0 if step is None else 3)


def _minutes(*memory: float) -> list[Minute]:
    return [Minute(n, 100, 10.0, 20.0, each, 30, {}) for n, each in enumerate(memory)]


def test_growth_is_the_last_third_to_the_first_without_the_first_minute() -> None:
    grown = _minutes(1.0, 100.0, 100.0, 120.0, 120.0, 150.0, 150.0)
    assert growth(grown, lambda each: each.memory_mb) == 1.5
    assert growth(_minutes(1.0, 100.0, 100.0, 100.0), lambda each: each.memory_mb) == 1.0


def test_the_measured_policy_asks_everything_that_the_default_asks(tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("policy") / "policy.yaml"
    write_policy(path)
    measured, default = (yaml.safe_load(each.read_text()) for each in (path, DEFAULT_POLICY))
    load_checked(path, CATALOG)
    for name, tool in default["tools"].items():
        assert [each["name"] for each in tool.get("limits", [])] == [
            each["name"] for each in measured["tools"][name].get("limits", [])
        ]
        assert tool.get("rules") == measured["tools"][name].get("rules")
        assert tool.get("totals") == measured["tools"][name].get("totals")


def test_what_cannot_be_reached_is_an_answer_of_its_own() -> None:
    answers = played(Plan([Ask("http://127.0.0.1:1/nowhere")] * 2, clients=2))
    assert answers.statuses == ["ClientConnectorError"] * 2


def test_the_meter_counts_what_a_process_did() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", "input(); sum(n * n for n in range(3_000_000)); print(flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        meter = CpuMeter([process.pid])
        process.stdin.write(b"\n")
        process.stdin.flush()
        process.stdout.readline()
        assert meter.seconds() > 0.05
        process.stdin.write(b"\n")
