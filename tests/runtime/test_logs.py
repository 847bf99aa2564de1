"""Log lines: one JSON object each, whatever is logged, and no exception's text."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
TRACE, SPAN = 0x4BF92F3577B34DA6A3CE929D0E0E4736, 0x00F067AA0BA902B7
HOSTILE = '\x1b[2J\r\nINFO fake\x00\x07\x7f\x85\u2028\u2029\u202e\ud800"}{\t'
PRELUDE = f"""
import asyncio, logging, structlog, warnings
from runtime.logs import start_logging
start_logging("INFO")
HOSTILE = {HOSTILE!r}
log = structlog.get_logger()
uvicorn = logging.getLogger("uvicorn.error")
from opentelemetry import trace
context = trace.SpanContext({TRACE}, {SPAN}, is_remote=False)
traced = lambda: trace.use_span(trace.NonRecordingSpan(context))
clear_contextvars = structlog.contextvars.clear_contextvars
"""
LOGGED = {
    "an event": "log.info(HOSTILE)",
    "a value": "log.info('event', value=HOSTILE)",
    "a name": "log.info('event', **{HOSTILE: 1})",
    "an object": "log.info('event', value={HOSTILE: [HOSTILE, HOSTILE.encode('utf-8', 'surrogatepass'), object()]})",
    "context": "structlog.contextvars.bind_contextvars(path=HOSTILE); log.info('event'); clear_contextvars()",
    "a step of a call": "\nwith traced(): log.info('event')",
    "another library in a step": "\nwith traced(): uvicorn.warning('event')",
    "another library": "uvicorn.warning('%s said %s', HOSTILE, HOSTILE)",
    "another library's logger": "logging.getLogger(HOSTILE).error('event')",
    "an exception of ours": "\ntry: raise ValueError('secret' + HOSTILE)\nexcept ValueError: log.exception('event')",
    "an exception of another library": (
        "\ntry: raise ValueError('secret' + HOSTILE)"
        "\nexcept ValueError: uvicorn.exception('Exception in application\\n')"
    ),
    "a task nobody asked about": (
        "\nasync def fail(): raise ValueError('secret' + HOSTILE)"
        "\nasync def main():\n task = asyncio.create_task(fail())\n await asyncio.sleep(0)\n await asyncio.sleep(0)"
        "\nasyncio.run(main())"
    ),
    "a traceback as text": (
        "\nimport traceback\ntry: raise ValueError('secret')\nexcept ValueError: uvicorn.error(traceback.format_exc())"
    ),
    "a warning": "warnings.warn('event' + HOSTILE)",
}


def logged(*statements: str) -> list[dict[str, Any]]:
    """The records that a process with these statements writes; each line must be one."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + "\n".join(statements)], cwd=ROOT, capture_output=True, check=True
    )
    assert done.stdout == b""
    lines = done.stderr.split(b"\n")
    assert lines.pop() == b""
    assert all(0x20 <= byte < 0x7F for line in lines for byte in line)
    return [json.loads(line) for line in lines]


@pytest.fixture(scope="module")
def records() -> dict[str, dict[str, Any]]:
    """What each of `LOGGED` writes, from one process."""
    marked = [part for name, statement in LOGGED.items() for part in (f"log.info('NEXT', name={name!r})", statement)]
    found: dict[str, dict[str, Any]] = {}
    name = ""
    for record in logged(*marked):
        if record["event"] == "NEXT":
            name = record["name"]
        else:
            assert name not in found, "two lines of one record"
            found[name] = record
    return found


@pytest.mark.parametrize("name", LOGGED)
def test_it_is_one_record(records: dict[str, dict[str, Any]], name: str) -> None:
    record = records[name]
    assert {"event", "level", "timestamp"} <= record.keys()
    assert "secret" not in json.dumps(record)
    assert "Traceback" not in json.dumps(record)


@pytest.mark.parametrize(
    "name",
    ["an exception of ours", "an exception of another library", "a task nobody asked about", "a traceback as text"],
)
def test_an_exception_is_named_by_its_type(records: dict[str, dict[str, Any]], name: str) -> None:
    assert records[name]["error_type"] == "ValueError"
    assert "INFO fake" not in json.dumps(records[name])


def test_a_line_names_the_trace_that_it_is_of(records: dict[str, dict[str, Any]]) -> None:
    for name, record in records.items():
        found = record.get("trace_id"), record.get("span_id")
        assert found == ((f"{TRACE:032x}", f"{SPAN:016x}") if "step" in name else (None, None)), name


def test_what_is_said_stays_readable(records: dict[str, dict[str, Any]]) -> None:
    assert records["an event"]["event"] == HOSTILE
    assert records["an exception of another library"]["event"] == "Exception in application"
    assert records["a task nobody asked about"]["event"] == "Task exception was never retrieved"
