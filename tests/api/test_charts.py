"""The geometry of charts."""

from itertools import pairwise

import pytest

from api.pages.charts import Row, Series, scale, stacked

SERIES = (Series("done", "done"), Series("open", "not ended yet"), Series("nothing", "came to nothing"))


def _rows(*counts: tuple[int, int, int]) -> list[Row]:
    return [Row(str(n), f"row {n}", each) for n, each in enumerate(counts)]


def test_the_highest_column_fills_the_picture_and_a_single_call_is_drawn() -> None:
    drawn = stacked("Calls.", "Hour", SERIES, _rows((0, 0, 0), (0, 1, 0), (250, 150, 100)))
    heights = [[(block.kind, block.height) for block in column.blocks] for column in drawn.columns]
    assert heights == [[], [("open", 1)], [("done", 50), ("open", 30), ("nothing", 20)]]
    done, open_, nothing = drawn.columns[2].blocks
    assert (done.y + done.height, open_.y + open_.height, nothing.y + nothing.height) == (115, done.y, open_.y)
    assert nothing.y == 15
    assert drawn.columns[2].title == "row 2: 250 done, 150 not ended yet, 100 came to nothing"
    assert stacked("Nothing.", "Hour", SERIES, _rows((0, 0, 0))).columns[0].blocks == ()


@pytest.mark.parametrize("columns", [1, 2, 7, 24, 30, 45])
def test_columns_and_their_labels_stay_in_the_picture_and_apart(columns: int) -> None:
    drawn = stacked("Calls.", "Day", SERIES, _rows(*[(1, 0, 0)] * columns))
    blocks = [block for column in drawn.columns for block in column.blocks]
    assert all(block.x >= 0 and block.x + block.width <= 480 for block in blocks)
    assert all(one.x + one.width < two.x for one, two in pairwise(blocks))
    places = [tick.x for tick in drawn.ticks]
    assert all(two - one >= 50 for one, two in pairwise(places))
    assert drawn.ticks[-1].text == str(columns - 1)
    assert drawn.ticks[0].text == "0"


def test_a_share_is_marked_in_its_interval_and_beside_the_band() -> None:
    drawn = scale(85.0, (64.04, 94.81), (75, 95))
    assert (drawn.at, drawn.low, drawn.wide, drawn.band_low, drawn.band_wide) == (85.0, 64.0, 30.8, 75, 20)
