"""The matrix of stages and sinks, as it is printed and as it stands in the documentation."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from tests.canary.collecting import action_of
from tests.canary.sinks import SINKS, Leak, Sink
from tests.canary.stages import STAGES, Stage

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "security.md"
ARTIFACT = ROOT / "artifacts" / "canary.md"
BEGIN, END = "<!-- canary: begin -->", "<!-- canary: end -->"
_CLEAN, _NOTHING = "ok", "–"


def searched(stage: Stage) -> frozenset[Sink]:
    """Where there is something to search after a stage."""
    absent: set[Sink] = set()
    if not stage.is_call:
        absent |= {"GET", "histories"}
    if not stage.accounts:
        absent |= {"accounts"}
    return frozenset(SINKS) - absent


def table(results: Mapping[str, Iterable[Leak]]) -> str:
    """Markdown. `results`: the leaks of each stage that was played, by its name."""
    lines = [
        f"| Stage | The agent is told | {' | '.join(SINKS)} |",
        f"| --- | --- |{' --- |' * len(SINKS)}",
        *(_row(stage, results[stage.name]) for stage in STAGES if stage.name in results),
    ]
    return "\n".join(lines) + "\n"


def _row(stage: Stage, leaks: Iterable[Leak]) -> str:
    told = ", ".join(f"`{code}`: {action_of(code)}" for code in dict.fromkeys(stage.codes))
    found: dict[Sink, list[str]] = {}
    for leak in leaks:
        found.setdefault(leak.sink, []).append(leak.found.secret)
    cells = [_cell(sink in searched(stage), found.get(sink, [])) for sink in SINKS]
    return f"| {stage.name} | {told} | {' | '.join(cells)} |"


def _cell(is_searched: bool, found: list[str]) -> str:
    if found:
        return f"**found**: {', '.join(sorted(set(found)))}"
    return _CLEAN if is_searched else _NOTHING


def clean() -> str:
    """The table as it has to be."""
    return table({stage.name: () for stage in STAGES})


def section(page: str) -> str:
    """The generated part of the page. Raises ValueError when the page has no place for it."""
    _, begin, rest = page.partition(BEGIN)
    content, end, _ = rest.partition(END)
    if not (begin and end):
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return content.strip() + "\n"


def with_section(page: str, content: str) -> str:
    """The page with another generated part."""
    section(page)
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{content}{END}{after}"
