"""What others remember of the ledger, against an export: Temporal's histories know the hashes of events too."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ledger.findings import Finding
from ledger.lines import MISSING_LINE, UNSEALED, read_event_line, segment_files, segments_in


@dataclass(frozen=True, slots=True)
class Remembered:
    """That event `n` of a call had this hash (hexadecimal), by a history of that workflow."""

    request_id: str
    n: int
    hash: str
    workflow_id: str


def compare(folder: Path, remembered: Iterable[Remembered]) -> list[Finding]:
    """Where the export has another event than a history remembers, or none. Once for each event."""
    wanted: dict[tuple[str, int], Remembered] = {(each.request_id, each.n): each for each in remembered}
    found: list[Finding] = []
    paths = [segment_files(folder, number)[1] for number in range(segments_in(folder))]
    for path in (*paths, folder / f"{UNSEALED}.jsonl"):
        with path.open("rb") as file:
            for line in file:
                if MISSING_LINE.fullmatch(line):
                    continue
                stated = read_event_line(line)
                known = wanted.pop((stated.event.request_id, stated.event.n), None)
                if known is not None and known.hash != stated.hash:
                    found.append(Finding("rewritten", f"{_which(known)} was {known.hash} and is {stated.hash}"))
    return found + [Finding("missing", f"{_which(each)} was there and is gone") for each in wanted.values()]


def _which(known: Remembered) -> str:
    return f"event {known.n} of {known.request_id}, as the history of {known.workflow_id} has it,"
