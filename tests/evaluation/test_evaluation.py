"""The evaluation set as data, the lexical baseline, the rates, and the command's predictions; no service is needed."""

import json
from pathlib import Path
from typing import get_args

import pytest
from typer.testing import CliRunner

from runtime.cli import evaluate
from runtime.evaluation.outside import SYSTEMS, TOOLS, TOOLS_PATH, environment
from runtime.evaluation.playing import Outcome
from runtime.evaluation.routing import accuracy, lexical
from runtime.evaluation.scoring import scores
from runtime.evaluation.slices import EvaluationError, Kind, Request, Slice, read_set
from runtime.testing import ToolUnderTest
from tools.catalog import Catalog
from tools.linting import lint

BUILT_IN = read_set([evaluate.BUILT_IN])


def test_the_built_in_set_has_every_kind_and_asks_for_every_published_tool() -> None:
    assert {each.kind for each in BUILT_IN.slices} == set(get_args(Kind))
    published = {entry.manifest.name for entry in Catalog.load(TOOLS).published()}
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
    descriptions = {entry.manifest.name: entry.manifest.description for entry in Catalog.load(TOOLS).published()}
    chosen = [lexical(each.says, descriptions) for each in BUILT_IN.requests]
    assert accuracy(BUILT_IN.requests, chosen) >= 0.7


def test_rates_say_what_came_of_what_nobody_allowed() -> None:
    good = [Outcome("a", 1, unauthorised=True), Outcome("a", 2, recovers=True), Outcome("a", 0)]
    assert scores(good) == (1, 1, 0.0, 1.0, 1.0)
    # The step was refused as it should be, and yet money moved by the end.
    moved = [Outcome("b", 1, unauthorised=True), Outcome("b", 0, "100 was refunded, not 0")]
    assert scores([*good, *moved]) == (1, 2, 0.5, 1.0, 1.0)
    broken = [Outcome("c", 1, "executed OK, not refused INVALID_INPUT", recovers=True), Outcome("c", 0)]
    assert scores([*good, *broken]) == (1, 2, 0.0, 0.5, 1.0)


def test_a_chain_is_prevented_where_nothing_came_of_it() -> None:
    held = [Outcome("a", 1), Outcome("a", 2, completes_chain=True), Outcome("a", 0)]
    assert scores(held).chains_prevented == 1.0
    ran = [Outcome("b", 2, "executed OK, not refused UNSAFE_CHAIN", completes_chain=True), Outcome("b", 0)]
    went_out = [Outcome("c", 2, completes_chain=True), Outcome("c", 0, "1 messages went out, not 0")]
    assert scores([*held, *ran, *went_out]).chains_prevented == pytest.approx(1 / 3)


@pytest.mark.parametrize("name", ["send_text_message", "remember_note"])
def test_the_sets_own_tools_hold_to_what_every_tool_does(name: str) -> None:
    tool = ToolUnderTest.load(TOOLS / name)
    assert tool.manifest.missing == ()
    for case in tool.red_cases({"text": "Hello."}, {"contact": {"contact_id": "ctc_000000000001"}}):
        case.check()
    assert lint([entry for entry in Catalog.load(TOOLS).all() if entry.manifest.name == name]) == []


def test_a_stack_with_the_sets_tools_keeps_what_its_caller_says() -> None:
    told = environment({}, "http://127.0.0.1:9")
    assert (told[TOOLS_PATH], json.loads(told[SYSTEMS])) == (str(TOOLS), {"outbox": "http://127.0.0.1:9"})
    assert told["COUNTERSEAL_PRIVATE_NETWORKS"] == "payments,orders,helpdesk,outbox"
    caller = {TOOLS_PATH: "/own", SYSTEMS: '{"bank": "https://bank.example"}', "COUNTERSEAL_PRIVATE_NETWORKS": "orders"}
    told = environment(caller, "http://127.0.0.1:9")
    assert (told[TOOLS_PATH], told["COUNTERSEAL_PRIVATE_NETWORKS"]) == ("/own", "orders,outbox")
    assert json.loads(told[SYSTEMS]) == {"bank": "https://bank.example", "outbox": "http://127.0.0.1:9"}


def test_what_a_stack_has_no_tools_for_is_left_out_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played: list[str] = []

    async def note(slices: list[Slice], data: object) -> list[Outcome]:
        played.extend(each.name for each in slices)
        return [Outcome(each.name, 0) for each in slices]

    monkeypatch.setattr(evaluate, "_outcomes", note)
    monkeypatch.delenv(TOOLS_PATH, raising=False)
    result = CliRunner().invoke(evaluate.app, ["--data", str(tmp_path), "--json"])
    assert json.loads(result.stdout)["tools_missing"] == ["remember_note", "send_text_message"]
    assert "small_refund" in played
    assert "told_by_text_message" not in played
    played.clear()
    monkeypatch.setenv(TOOLS_PATH, str(TOOLS))
    result = CliRunner().invoke(evaluate.app, ["--data", str(tmp_path), "--json"])
    assert json.loads(result.stdout)["tools_missing"] == []
    assert "told_by_text_message" in played


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
