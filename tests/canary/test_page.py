"""The page holds the table of every stage and sink that there is, and every cell of it is clean."""

import pytest

from tests.canary import matrix
from tests.canary.planted import CARD, Found
from tests.canary.sinks import SINKS, Leak
from tests.canary.stages import STAGES


def test_the_page_has_the_whole_table() -> None:
    page = matrix.PAGE.read_text(encoding="utf-8")
    assert matrix.section(page) == matrix.clean(), "run `python -m tests.canary`"


def test_the_page_describes_every_sink() -> None:
    page, _, _ = matrix.PAGE.read_text(encoding="utf-8").partition(matrix.BEGIN)
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ")]
    described = {name.strip() for row in rows for name in row.split(",")}
    assert described.issuperset(SINKS)


def test_stages_have_names_of_their_own() -> None:
    names = [stage.name for stage in STAGES]
    assert len(set(names)) == len(names)


def test_a_leak_is_seen_in_the_table() -> None:
    stage = STAGES[0]
    leak = Leak("logs", "log", Found(CARD, "raw"))
    assert "**found**: a card's number" in matrix.table({stage.name: [leak]})
    assert "**found**" not in matrix.table({stage.name: []})


def test_a_page_without_a_place_for_the_table_is_refused() -> None:
    with pytest.raises(ValueError, match="canary: begin"):
        matrix.with_section("nothing", "")
    page = f"before {matrix.BEGIN} old {matrix.END} after"
    assert matrix.section(matrix.with_section(page, "new\n")) == "new\n"
    assert matrix.with_section(page, "new\n").startswith("before ")
    assert matrix.with_section(page, "new\n").endswith(" after")
