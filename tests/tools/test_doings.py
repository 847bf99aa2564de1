"""When a tool is offered, by what its run did."""

from datetime import UTC, datetime, timedelta

import pytest

from schemas.calls import Doing
from schemas.tools import Phase
from tools.doings import first_step, in_phase

NOON = datetime(2026, 1, 2, 12, tzinfo=UTC)
PHASE = Phase(after=("draft",), until=("submit",))


def did(tool: str, asked: int, executed: int | None = None) -> Doing:
    """Minutes after noon."""
    return Doing(
        tool, NOON + timedelta(minutes=asked), None if executed is None else NOON + timedelta(minutes=executed)
    )


@pytest.mark.parametrize(
    ("doings", "offered"),
    [
        ([], False),
        ([did("lookup", 0, 0)], False),
        ([did("draft", 0)], False),
        ([did("draft", 0, 1)], True),
        ([did("draft", 0, 1), did("lookup", 2, 2)], True),
        ([did("draft", 0, 1), did("submit", 2)], False),
        ([did("draft", 0, 1), did("submit", 2, 3)], False),
        ([did("draft", 4, 5), did("submit", 2, 3)], True),
        ([did("draft", 0, 1), did("submit", 1)], False),
        ([did("submit", 2, 3)], False),
    ],
)
def test_a_phase_opens_with_what_was_done_and_closes_with_what_is_asked(doings: list[Doing], offered: bool) -> None:
    assert in_phase(PHASE, doings) is offered


def test_without_an_end_it_stays_open() -> None:
    assert in_phase(Phase(after=("draft",)), [did("draft", 0, 1), did("submit", 2, 3)])


def test_a_tool_without_a_phase_is_always_offered() -> None:
    assert in_phase(None, [])
    assert first_step(None) is None
    assert first_step(PHASE) == "draft"
