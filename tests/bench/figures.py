"""What a measurement comes to: figures with what they must reach, as a table and as JSON."""

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One figure of a line. `target` is what it must be at least or at most (`bound`); None for one that only informs.

    `beside`: what it is a ratio of, in words with their numbers. `reason`: why it is not reached, where that is known.
    """

    name: str
    value: float
    unit: str = ""
    target: float | None = None
    bound: Literal["least", "most"] = "least"
    beside: str = ""
    reason: str = ""

    @property
    def met(self) -> bool | None:
        if self.target is None:
            return None
        return self.value >= self.target if self.bound == "least" else self.value <= self.target

    def cells(self) -> tuple[str, str, str, str]:
        """(value, target, verdict, beside)."""
        sign = "≥" if self.bound == "least" else "≤"
        target = "" if self.target is None else f"{sign} {number(self.target)} {self.unit}".strip()
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        said = f"{self.beside}: {self.reason}" if self.met is False and self.reason else self.beside
        return f"{number(self.value)} {self.unit}".strip(), target, verdict, said


def number(value: float) -> str:
    if value == int(value) or abs(value) >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:.1f}"


def p50(values: Sequence[float]) -> float:
    return statistics.median(values)


def p99(values: Sequence[float]) -> float:
    return sorted(values)[math.ceil(len(values) * 0.99) - 1]


def table(found: Iterable[tuple[str, Sequence[Figure]]]) -> Table:
    """Line by line."""
    shown = Table("line", "figure", "measured", "to reach", "", "beside")
    for line, figures in found:
        for n, figure in enumerate(figures):
            shown.add_row("" if n else line, figure.name, *figure.cells(), end_section=n == len(figures) - 1)
    return shown


def as_json(found: Iterable[tuple[str, Sequence[Figure]]]) -> dict[str, Any]:
    return {line: [asdict(each) | {"met": each.met} for each in figures] for line, figures in found}
