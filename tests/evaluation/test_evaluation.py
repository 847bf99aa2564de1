"""The evaluation set as data, the lexical baseline, the rates, and the command's predictions; no service is needed."""

import json
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from runtime.cli import evaluate
from runtime.evaluation.playing import Outcome
from runtime.evaluation.routing import accuracy, lexical
from runtime.evaluation.scoring import scores
from runtime.evaluation.slices import EvaluationError, Kind, Request, read_set
from tools.catalog import Catalog

BUILT_IN = read_set([evaluate.BUILT_IN])


def test_the_built_in_set_has_every_kind_and_asks_for_every_published_tool() -> None:
    assert {each.kind for each in BUILT_IN.slices} == set(get_args(Kind))
    published = {entry.manifest.name for entry in Catalog.load().published()}
    assert {each.tool for each in BUILT_IN.requests} == published
    assert {tool for each in BUILT_IN.slices for tool in each.tools} <= published


def test_every_placeholder_stands_for_something() -> None:
    for slice_ in BUILT_IN.slices:
        names = {*slice_.orders, *slice_.tickets}
        for n, step in enumerate(slice_.steps, 1):
            assert step.call in slice_.tools, slice_.name
            assert set(step.becomes) <= set(slice_.orders), slice_.name
            assert step.repeats is None or step.repeats < n, slice_.name
            for value in step.arguments.values():
                if isinstance(value, str) and value.startswith("{"):
                    name = value[1:].partition("}")[0]
                    assert name in names or int(name.partition(".")[0]) < n, (slice_.name, value)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("slices: [{name: one}]", "slices.0.kind: Field required"),
        ("slice: []", "slice: Extra inputs are not permitted"),
        ("slices: [", "line 2, column 1"),
    ],
)
def test_a_file_that_means_nothing_is_named(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "set.yaml"
    file.write_text(text)
    with pytest.raises(EvaluationError) as problem:
        read_set([file])
    assert str(problem.value).startswith(str(file))
    assert says in str(problem.value)


def test_two_slices_of_one_name_are_one_too_many(tmp_path: Path) -> None:
    step = "{call: lookup_orders, expect: {status: executed, code: OK}}"
    one = f"{{name: one, kind: normal, says: Hello, tools: [lookup_orders], steps: [{step}]}}"
    (tmp_path / "set.yaml").write_text(f"slices: [{one}, {one}]")
    with pytest.raises(EvaluationError, match="two slices are called one"):
        read_set([tmp_path])
    empty = tmp_path / "nothing"
    empty.mkdir()
    with pytest.raises(EvaluationError, match="no evaluation set"):
        read_set([empty])


def test_words_find_the_tool_that_speaks_of_them_and_not_the_one_that_says_it_does_not() -> None:
    descriptions = {
        "find_orders": "Lists orders. Do not use it for parcels: use find_parcels.",
        "find_parcels": "Tells where parcels are.",
    }
    assert lexical("Where are my parcels?", descriptions) == "find_parcels"
    assert lexical("My orders, please", descriptions) == "find_orders"
    assert lexical("xyz", descriptions) == "find_orders"


def test_accuracy_is_the_share_that_was_routed_right() -> None:
    requests = [Request(says="a", tool="find_orders"), Request(says="b", tool="find_parcels")]
    assert accuracy(requests, ["find_orders", "find_orders"]) == 0.5
    assert accuracy([], []) == 1.0


def test_the_baseline_does_well_on_the_built_in_descriptions() -> None:
    descriptions = {entry.manifest.name: entry.manifest.description for entry in Catalog.load().published()}
    chosen = [lexical(each.says, descriptions) for each in BUILT_IN.requests]
    assert accuracy(BUILT_IN.requests, chosen) >= 0.7


def test_rates_say_what_came_of_what_nobody_allowed() -> None:
    good = [Outcome("a", 1, unauthorised=True), Outcome("a", 2, recovers=True), Outcome("a", 0)]
    assert scores(good) == (1, 1, 0.0, 1.0)
    # The step was refused as it should be, and yet money moved by the end.
    moved = [Outcome("b", 1, unauthorised=True), Outcome("b", 0, "100 was refunded, not 0")]
    assert scores([*good, *moved]) == (1, 2, 0.5, 1.0)
    broken = [Outcome("c", 1, "executed OK, not refused INVALID_INPUT", recovers=True), Outcome("c", 0)]
    assert scores([*good, *broken]) == (1, 2, 0.0, 0.5)


def test_a_models_choices_are_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def nothing(slices: object, data: object) -> list[Outcome]:
        return [Outcome("one", 1), Outcome("one", 0)]

    monkeypatch.setattr(evaluate, "_outcomes", nothing)
    (tmp_path / "set.yaml").write_text(
        "requests: [{says: My orders, tool: lookup_orders}, {says: My parcel, tool: lookup_shipment}]"
    )
    choices = tmp_path / "choices.json"
    choices.write_text(json.dumps([{"says": "My orders", "tool": "lookup_orders"}]))
    result = CliRunner().invoke(evaluate.app, [str(tmp_path / "set.yaml"), "--predictions", str(choices), "--json"])
    assert result.exit_code == 0, result.output
    told = json.loads(result.stdout)
    assert (told["routing_accuracy"], told["routing"][1]["chosen"]) == (0.5, "")


def test_a_slice_that_does_not_hold_is_exit_one(monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(slices: object, data: object) -> list[Outcome]:
        return [Outcome("small_refund", 1, "refused RATE_LIMITED, not executed OK")]

    monkeypatch.setattr(evaluate, "_outcomes", broken)
    result = CliRunner().invoke(evaluate.app, [])
    assert result.exit_code == 1
    assert "step 1: refused RATE_LIMITED" in result.stdout
