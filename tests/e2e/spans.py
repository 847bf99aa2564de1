"""The spans that a stack exported, read from its files."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

from tests.e2e.running import RunningStack

Span = dict[str, Any]
_PATIENCE = 30


class Trace:
    """One trace, as far as it was exported."""

    def __init__(self, trace_id: str, spans: list[Span]) -> None:
        self.id = trace_id
        self.spans = spans
        self.text = json.dumps(spans)

    @property
    def names(self) -> Counter[str]:
        return Counter(each["name"] for each in self.spans)

    def one(self, name: str) -> Span:
        """The only span of this name."""
        (found,) = (each for each in self.spans if each["name"] == name)
        return found

    def roots(self, caller: str) -> list[Span]:
        """Those whose parent is in no file: the caller's own span, by its id, is none of the stack's."""
        known = {each["context"]["span_id"] for each in self.spans} | {f"0x{caller}"}
        return [each for each in self.spans if each["parent_id"] not in known]


def exported(stack: RunningStack, trace_id: str) -> Trace:
    """What is there of a trace."""
    lines = [line for file in (stack.data / "traces").glob("*.jsonl") for line in _lines(file)]
    spans = [json.loads(line) for line in lines if trace_id in line]
    return Trace(trace_id, [span for span in spans if span["context"]["trace_id"] == f"0x{trace_id}"])


def await_spans(stack: RunningStack, trace_id: str, *names: str) -> Trace:
    """The trace once all of these were exported: spans leave their process in batches."""
    deadline = time.monotonic() + _PATIENCE
    while not set(names) <= (found := exported(stack, trace_id)).names.keys():
        assert time.monotonic() < deadline, sorted(found.names)
        time.sleep(0.1)
    return found


def _lines(file: Path) -> list[str]:
    """Whole lines: the last one may just be written."""
    return [line for line in file.read_text().splitlines(keepends=True) if line.endswith("\n")]
