"""`counterseal demo`: its exit status, and a table that can be read."""

import io
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from runtime.cli import demo as command
from runtime.demo.agent import Played
from runtime.demo.client import Answer, ApiProblem
from runtime.demo.script import SCRIPT, Step
from runtime.demo.table import results, why
from tests.cli.conftest import Run


def returning(result: list[str] | None) -> Callable[..., Any]:
    async def with_stack(*_: object, **__: object) -> list[str] | None:
        return result

    return with_stack


@pytest.mark.parametrize(
    ("options", "problems", "status"),
    [
        (["--once"], [], 0),
        (["--once"], ["Refund 49.99 USD: the gateway has one too many"], 1),
        (["--once"], None, 1),
        ([], None, 0),
        ([], [], 0),
        ([], ["Refund 49.99 USD: the gateway has one too many"], 1),
    ],
)
async def test_the_exit_status_says_whether_all_went_as_scripted(
    run: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: list[str],
    problems: list[str] | None,
    status: int,
) -> None:
    monkeypatch.setattr(command, "with_stack", returning(problems))
    assert (await run("demo", "--data", tmp_path, *options)).status == status


async def test_a_service_that_does_not_answer_is_one_line(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def with_stack(*_: object, **__: object) -> list[str]:
        raise ApiProblem("the API does not answer (ConnectError)")

    monkeypatch.setattr(command, "with_stack", with_stack)
    ran = await run("demo", "--data", tmp_path)
    assert ran.status == 1
    assert ran.err.splitlines()[-1] == "counterseal: the API does not answer (ConnectError)"


def step(name: str) -> Step:
    return next(each for each in SCRIPT if each.name == name)


def played(name: str, message: str = "Done: refunded 49.99 USD of order ord_Demo12345678.", **changes: Any) -> Played:
    each = step(name)
    answer = Answer(status=each.ends.status, code=each.ends.code, request_id="act_1", message=message)
    subject = "ord_Demo12345678" if each.order else ""
    return replace(Played(each, subject, "", answer, answer, each.verdict, "", ()), **changes)


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        (played("small"), "done: refunded 49.99 USD"),
        (played("again"), "the same call, nothing done twice; done: refunded 49.99 USD"),
        (
            played("lost", events=("effect.unknown", "effect.inspected")),
            "answer lost, looked up and not sent again; done: refunded 49.99 USD",
        ),
        (
            played("large", because="the amount is over the threshold; with this one, the total too"),
            "the amount is over the threshold",
        ),
        (
            played("over", "Order ord_x was paid 4999. Send again with amount_cents <= 4999."),
            "order ord_x was paid 4999",
        ),
        (
            played("dry", "Dry run, nothing was done: it would wait (a; b). More."),
            "dry run, nothing was done: it would wait",
        ),
    ],
)
def test_the_reason_is_the_services_own_sentence(row: Played, sentence: str) -> None:
    assert why(row) == sentence


@pytest.mark.parametrize("width", [80, 100])
def test_the_table_fits_and_cuts_nothing(width: int) -> None:
    screen = io.StringIO()
    Console(file=screen, width=width).print(results([played(each.name) for each in SCRIPT]))
    lines = screen.getvalue().splitlines()
    assert max(len(line) for line in lines) <= width
    text = "".join(lines)
    assert "…" not in text
    assert all(each.ends.code in text for each in SCRIPT if each.ends.status == "refused")
