"""A file of recorded agent runs (`runs.jsonl`): one run a line, its calls in order, and what each must answer."""

from pathlib import Path
from typing import Annotated, NamedTuple

from pydantic import Field, JsonValue, ValidationError

from runtime.cli.errors import CommandError
from schemas.base import Model
from schemas.codes import Code, Status


class Expected(Model):
    status: Status
    code: Code


class RecordedCall(Model):
    tool: Annotated[str, Field(min_length=1)]
    arguments: dict[str, JsonValue]
    expect: Expected


class RecordedRun(Model):
    """`customer_says` is what led to the calls: untrusted text, read by nobody here."""

    customer_id: Annotated[str, Field(min_length=1)]
    customer_says: str = ""
    calls: Annotated[tuple[RecordedCall, ...], Field(min_length=1)]


class Line(NamedTuple):
    number: int
    run: RecordedRun


def read_runs(path: Path) -> list[Line]:
    """The runs of a file, with their line numbers; empty lines are left out. Raises CommandError naming the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise CommandError(f"{path} is not UTF-8 text") from None
    lines = [_line(path, number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]
    if not lines:
        raise CommandError(f"{path} holds no run")
    return lines


def _line(path: Path, number: int, text: str) -> Line:
    try:
        return Line(number, RecordedRun.model_validate_json(text))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise CommandError(f"{path}, line {number}: {where + ': ' if where else ''}{first['msg']}") from None
