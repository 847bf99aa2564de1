"""How much is too much is said in policies and nowhere else."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from policy.load import DEFAULT_POLICY, load_policy
from policy.model import Policy

ROOT = Path(__file__).parents[2]
PACKAGES = ("activities", "api", "gateways", "ledger", "policy", "runtime", "tools", "workflows")
# The numbers that bound refunds, and are too common for others to be kept from them.
COMMON = (
    "policy",
    "ledger/admission.py",
    "ledger/sql/calls.sql",
    "activities/deciding.py",
    "activities/reconsidering.py",
    "activities/admitting.py",
)
# What these say of is no refund.
OTHERWISE = frozenset({"max_length", "retry_after_seconds"})


def seeds(default: Policy) -> dict[str, int]:
    tool = default.tools["issue_refund"]
    assert tool.breaker is not None
    limits = {limit.name: limit.max for limit in tool.limits}
    return {
        "run": limits["refunds_per_run"],
        "hour": limits["refunds_per_hour"],
        "breaker": tool.breaker.max,
        "threshold": tool.thresholds["approval_cents"],
    }


def test_the_default_policy_has_them() -> None:
    assert seeds(load_policy(DEFAULT_POLICY)) == {"run": 5, "hour": 100, "breaker": 200, "threshold": 20_000}


def _numbers(path: Path) -> Iterator[int]:
    """Whole numbers of a source file, in code and in our sentences."""
    if path.suffix == ".sql":
        code = (line.partition("--")[0] for line in path.read_text().splitlines())
        yield from (int(word) for line in code for word in line.split() if word.isdecimal())
        return
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    elsewhere = [keyword for call in calls for keyword in call.keywords if keyword.arg in OTHERWISE]
    excused = {id(node) for keyword in elsewhere for node in ast.walk(keyword)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and type(node.value) is int and id(node) not in excused:
            yield node.value


def _files(*places: str) -> list[Path]:
    found = [ROOT / place for place in places]
    return sorted(file for each in found for file in ([each] if each.is_file() else each.rglob("*.py")))


@pytest.mark.parametrize("place", PACKAGES)
def test_no_code_has_the_threshold(place: str) -> None:
    threshold = load_policy(DEFAULT_POLICY).tools["issue_refund"].thresholds["approval_cents"]
    # A policy's own numbers are data in YAML, which is not looked at here.
    assert [str(file) for file in _files(place) if threshold in _numbers(file)] == []


def test_nothing_that_counts_or_decides_has_any_of_them() -> None:
    numbers = set(seeds(load_policy(DEFAULT_POLICY)).values())
    found = {str(file.relative_to(ROOT)): numbers & set(_numbers(file)) for file in _files(*COMMON)}
    assert {file: each for file, each in found.items() if each} == {}
