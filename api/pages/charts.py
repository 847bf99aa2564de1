"""Charts, drawn on the server: their geometry, in the units of the picture. Pure; `_charts.html` draws them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_WIDTH = 480
_GROUND = 115
_HIGHEST = 100
# How wide a label is with the room around it.
_LABEL = 110
# The part of a column's width that is left free.
_GAP = 0.3


@dataclass(frozen=True, slots=True)
class Series:
    """What one part of each column stands for; `kind` is the class of the stylesheet that colours it."""

    kind: str
    name: str


@dataclass(frozen=True, slots=True)
class Row:
    """One column's numbers, one for each series. `label` stands below it, `name` in the table."""

    label: str
    name: str
    counts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """One part of a column. `x`, `y` is its upper left corner."""

    kind: str
    x: float
    y: int
    width: float
    height: int


@dataclass(frozen=True, slots=True)
class Tick:
    """A label below the columns."""

    x: float
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class Column:
    """One column from the ground up. `title` says its numbers."""

    title: str
    blocks: tuple[Block, ...]


@dataclass(frozen=True, slots=True)
class Stacked:
    """Columns of stacked parts. `heading` names what the rows are; `label` says in a sentence what is drawn."""

    label: str
    heading: str
    series: tuple[Series, ...]
    rows: tuple[Row, ...]
    columns: tuple[Column, ...]
    ticks: tuple[Tick, ...]


def stacked(label: str, heading: str, series: Sequence[Series], rows: Sequence[Row]) -> Stacked:
    """The chart of one row or more. The highest column fills the picture, and whatever is not nothing is drawn."""
    highest = max(sum(row.counts) for row in rows)
    wide = _WIDTH / len(rows)
    columns = tuple(_column(series, row, n * wide, wide, highest) for n, row in enumerate(rows))
    return Stacked(label, heading, tuple(series), tuple(rows), columns, _ticks(rows, wide))


@dataclass(frozen=True, slots=True)
class Scale:
    """A share on a scale from 0 to 100 per cent: `at`, in an interval of which `low` is the lower end, `wide` long; and
    the band from `band_low` on, `band_wide` long."""

    at: float
    low: float
    wide: float
    band_low: float
    band_wide: float


def scale(at: float, interval: tuple[float, float], band: tuple[float, float]) -> Scale:
    """All in per cent."""
    (low, high), (band_low, band_high) = interval, band
    return Scale(round(at, 1), round(low, 1), round(high - low, 1), band_low, band_high - band_low)


def _column(series: Sequence[Series], row: Row, x: float, wide: float, highest: int) -> Column:
    blocks: list[Block] = []
    top = _GROUND
    for part, count in zip(series, row.counts, strict=True):
        height = math.ceil(count * _HIGHEST / highest) if highest else 0
        top -= height
        if height:
            blocks.append(Block(part.kind, round(x + wide * _GAP / 2, 1), top, round(wide * (1 - _GAP), 1), height))
    said = ", ".join(f"{count:,} {part.name}" for part, count in zip(series, row.counts, strict=True))
    return Column(f"{row.name}: {said}", tuple(blocks))


def _ticks(rows: Sequence[Row], wide: float) -> tuple[Tick, ...]:
    """As many labels as there is room for, those of the first and the last column among them."""
    last, every = len(rows) - 1, math.ceil(_LABEL / wide)
    shown = {n for n in range(0, last, every) if n == 0 or 2 * (last - n) >= every} | {last}
    return tuple(Tick(round((n + 0.5) * wide, 1), _anchor(n, last), rows[n].label) for n in sorted(shown))


def _anchor(n: int, last: int) -> str:
    return "middle" if 0 < n < last or last == 0 else "start" if n == 0 else "end"
