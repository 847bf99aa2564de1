"""Writes the parts of the documentation that say what the code says: codes, events, settings, commands.

`python docs/generate.py` writes the files; the tests compare them with what this would write. The shape of a version of
an event, once written, stays: it is refused to write another one over it.
"""

import ast
import importlib
import inspect
import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, get_args

import typer
from pydantic import BaseModel, JsonValue, SecretStr
from pydantic_core import PydanticUndefined

from docs.markdown import table
from docs.routes import Routes, document, openapi
from runtime.cli.main import COMMANDS
from runtime.settings import Settings
from schemas.codes import REGISTRY, Action, Code, CodeSpec
from schemas.events import Event
from schemas.guide import page
from schemas.upcasting import MODELS

DOCS = Path(__file__).parent
REFERENCE = DOCS / "reference"
_ROOT = DOCS.parent
_EXAMPLE_BASE = "https://counterseal.example"

_WORDS = frozenset({"title", "description"})

# What each action asks of the agent; the closed list is `schemas.codes.Action`.
_ACTIONS: dict[Action, str] = {
    "none": "nothing more to do",
    "wait": "ask for its progress later with the `request_id`; do not send another call for the same thing",
    "retry_after_delay": "send it after `retry_after_seconds`; the message says whether with the same key or a new one",
    "repair_input": "correct what `invalid_fields` and `allowed` name, and send a new call with a new key",
    "request_approval": "ask a person before sending it again",
    "use_other_tool": "use the tool named in `use_tool` instead",
    "stop_and_report": "do not try again; hand over to a person",
    "inspect_outcome": "do not send it again; ask for its progress with the `request_id`",
}


def codes() -> str:
    """`codes.md`: one section per code."""
    parts = [
        _header("Codes", "schemas/codes.py"),
        "The list is closed, and the meaning of a code never changes. `GET /codes/{code}` on a running service says the"
        " same, and so does the page of each code; it is what the `type` of a problem points to. The message is"
        " the sentence that the agent gets;"
        " values in braces are filled in for each call.",
        table(
            ("Code", "Status", "Action", "HTTP", "Same call again"),
            [
                (f"[`{code}`](../codes/{code}.md)", spec.status, spec.action, _http(spec), _yes(spec.retryable))
                for code, spec in REGISTRY.items()
            ],
        ),
        "HTTP is the status of the answer to `POST /v1/tool-calls`; `GET` of a call is 200 whatever its code."
        " Statuses in parentheses are those of requests that never became a call.",
        "## Actions",
        "The action of a reply can be narrower than the usual one of its code: `NOT_REFUNDABLE` becomes"
        " `use_other_tool` where another tool fits, `RATE_LIMITED` becomes `retry_after_delay` where waiting helps.",
        table(("Action", "What the agent should do"), [(f"`{name}`", _ACTIONS[name]) for name in get_args(Action)]),
    ]
    return _document(parts + [_code(code) for code in REGISTRY])


def _http(spec: CodeSpec) -> str:
    return f"{spec.http_status} ({', '.join(str(each) for each in spec.also)})" if spec.also else str(spec.http_status)


def code_page(code: Code) -> str:
    """`codes/<CODE>.md`: the page that `GET /codes/{code}` answers with."""
    heading, rest = page(code, _EXAMPLE_BASE).split("\n", 1)
    return f"{_header(heading.removeprefix('# '), 'schemas/codes.py and schemas/guide.py')}\n{rest}"


def _code(code: Code) -> str:
    spec = REGISTRY[code]
    return (
        f"## {code}\n\n{spec.title}. Status `{spec.status}`, action `{spec.action}`, HTTP {spec.http_status}; "
        f"the same call may {'' if spec.retryable else 'not '}be sent again.\n\n> {spec.message}"
    )


def events() -> str:
    """`events.md`: one section per event."""
    parts = [
        _header("Events", "schemas/events.py and schemas/tenant_events.py"),
        "What the ledger appends, per call, numbered from 1. The body is encrypted; `counterseal calls events"
        " REQUEST_ID --json` decrypts it. Beside the body each row has its tenant, call, number, type, version, time,"
        " key id, the hash of the previous event and its own hash. A changed"
        " shape is a new version, never another meaning of the old one; `schemas/upcasting.py` reads old ones as the"
        " current. Every version that was ever written has its JSON Schema.",
    ]
    for model in get_args(get_args(Event)[0]):
        said, fields = _attributes(model)
        if not said:
            raise ValueError(f"{model.__name__} has no docstring")
        name = model.model_fields["type"].default
        parts.append(f"## {name}\n\n{said} {_schemas(name, model.version)}.")
        parts.append("\n".join(_field(*field) for field in fields if field[0] in model.model_fields.keys() - {"type"}))
    return _document(parts)


def _schemas(type_: str, version: int) -> str:
    """Links to the schema of the current version, and to those of the ones before."""
    current, *former = [f"[{n}](../{schema_file(type_, n)})" for n in range(version, 0, -1)]
    return f"Version {current}" + (f"; before it {', '.join(former)}" if former else "")


def schema_file(type_: str, version: int) -> str:
    """Where under `docs/` the schema of a version of an event is."""
    return f"events/{type_}.v{version}.json"


def event_schemas() -> dict[str, str]:
    """The current version of every event as JSON Schema (draft 2020-12), by its file: the shape of a body, without
    words that could change while it does not."""
    written: dict[str, str] = {}
    for name, model in MODELS.items():
        bare: Any = _bare(model.model_json_schema())
        # The list of codes is versioned by itself, and grows.
        bare.get("$defs", {}).get("Code", {}).pop("enum", None)
        schema = {
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "title": f"{name} v{model.version}",
            **bare,
        }
        written[schema_file(name, model.version)] = json.dumps(schema, indent=2, ensure_ascii=False) + "\n"
    return written


def changed_schemas() -> list[str]:
    """What there is a file of that says another shape than the code, in a sentence each that says what to do."""
    return [
        f"docs/{name} was written before and says another shape: what is stored of that version stays. Give the"
        " event its next version, and schemas/upcasting.py a function that makes the old body into the new one."
        for name, content in event_schemas().items()
        if (DOCS / name).exists() and (DOCS / name).read_text(encoding="utf-8") != content
    ]


def _bare(schema: JsonValue) -> Any:
    """Without titles and descriptions, and with every mapping in one order."""
    if isinstance(schema, list):
        return [_bare(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {name: value for name, value in schema.items() if name not in _WORDS or not isinstance(value, str)}
    return {name: _bare(kept[name]) for name in sorted(kept)}


def _field(name: str, kind: str, text: str) -> str:
    return f"- `{name}`: `{kind}`" + (f". {text}" if text else "")


def settings() -> str:
    """`settings.md`: one row per setting."""
    rows = [
        (f"`COUNTERSEAL_{name.upper()}`", _default(name), f"`{kind}`", text)
        for name, kind, text in _attributes(Settings)[1]
        if name in Settings.model_fields
    ]
    return _document(
        [
            _header("Settings", "runtime/settings.py"),
            "Processes read their settings from the environment, check them at start and name every variable that is"
            " missing or wrong; a value is never repeated. `counterseal up` sets what its processes need, and passes a"
            " caller's own values through where the choice is the caller's.",
            table(("Variable", "Default", "Type", "Meaning"), rows),
            "## Beside these",
            table(
                ("Variable", "Meaning"),
                [
                    (
                        "`COUNTERSEAL_DATA`",
                        "The data folder of the embedded stack, where `--data` is not given (default `.counterseal`)",
                    ),
                    ("`COUNTERSEAL_DEBUG`", "Any value: a command that fails unexpectedly prints its traceback"),
                    (
                        "`TEMPORAL_…`",
                        "Temporal's own variables and profile file: address, namespace, TLS, API key"
                        " ([documentation](https://docs.temporal.io/develop/environment-configuration)). `counterseal"
                        " up` keeps them from its own processes",
                    ),
                    (
                        "`OTEL_…`",
                        "OpenTelemetry's own variables. Spans are exported once `OTEL_EXPORTER_OTLP_ENDPOINT` or"
                        " `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` is set",
                    ),
                ],
            ),
        ]
    )


def commands() -> str:
    """`commands.md`: one section per command line."""
    parts = [
        _header("Commands", "runtime/cli/"),
        "Exit status: 0 success, 1 what was checked does not hold or could not be done, 2 wrong usage. Errors are one"
        " line on standard error. Commands that read the ledger find the running embedded stack by `--data` or"
        " `COUNTERSEAL_DATA`, a production database by `COUNTERSEAL_DATABASE_URL` and `COUNTERSEAL_MASTER_KEY_FILE`.",
    ]
    for name, (module, summary) in COMMANDS.items():
        command: Any = typer.main.get_command(importlib.import_module(module).app)
        group: dict[str, Any] = getattr(command, "commands", {})
        if not group:
            parts += [f"## counterseal {name}", *_command(command, name)]
            continue
        parts += [f"## counterseal {name}", summary]
        for each, inner in group.items():
            parts += [f"### counterseal {name} {each}", *_command(inner, f"{name} {each}")]
    return _document(parts)


def routes() -> str:
    """`routes.md`: one section per route, and one per object."""
    return _document(
        [
            _header("Routes", "api/"),
            "What `GET /openapi.json` says, and [openapi.json](openapi.json) beside this page: every route, what it"
            " takes and everything that it can answer. [HTTP API](api.md) says how they are used.",
            *Routes(document(_EXAMPLE_BASE)).parts(),
        ]
    )


def _command(command: Any, name: str) -> Iterator[str]:
    """Help text, example, and a table of arguments and options."""
    yield " ".join(inspect.cleandoc(command.help).split())
    example = str(command.epilog).removeprefix("Example: ")
    if not command.epilog or f"counterseal {name}" not in example:
        raise ValueError(f"counterseal {name} --help has no example")
    yield f"```sh\n{example}\n```"
    rows = [_parameter(each) for each in command.params if "completion" not in each.name]
    if rows:
        yield table(("", "Default", "Meaning"), rows)


def _parameter(parameter: Any) -> tuple[str, str, str]:
    is_option = parameter.param_type_name == "option"
    name = parameter.opts[0] if is_option else parameter.name.upper()
    if parameter.multiple:
        name += " …"
    shown = parameter.show_default if isinstance(parameter.show_default, str) else None
    default = shown or ("" if parameter.default in (None, False) else str(_relative(parameter.default)))
    if parameter.required:
        default = "required"
    elif parameter.envvar:
        default = f"`{parameter.envvar}`" + (f", else {default}" if default else "")
    return f"`{name}`", default, parameter.help or ""


def _relative(value: object) -> object:
    """A path of ours, as seen from the project's root: the same on every machine."""
    if isinstance(value, Path) and value.is_relative_to(_ROOT):
        return value.relative_to(_ROOT)
    return value


def _attributes(model: type[BaseModel]) -> tuple[str, list[tuple[str, str, str]]]:
    """(the class's docstring, [(name, annotation, docstring)] of its fields, in order; first those of a base that is
    its module's own)."""
    body = ast.parse(textwrap.dedent(inspect.getsource(model))).body[0]
    assert isinstance(body, ast.ClassDef)
    fields = [each for base in model.__bases__ if base.__name__.startswith("_") for each in _attributes(base)[1]]
    following: list[ast.stmt | None] = [*body.body[1:], None]
    for statement, after in zip(body.body, following, strict=True):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            kind = ast.unparse(statement.annotation).removeprefix("Annotated[").split(", Field(")[0]
            fields.append((statement.target.id, kind, _text(after)))
    return " ".join((ast.get_docstring(body) or "").split()), fields


def _text(statement: ast.stmt | None) -> str:
    """The docstring that follows an attribute."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return " ".join(str(statement.value.value).split())
    return ""


def _default(name: str) -> str:
    default: Any = Settings.model_fields[name].default
    if default is PydanticUndefined:
        return "required"
    if default is None or isinstance(default, SecretStr):
        return ""
    shown = str(default).lower() if isinstance(default, bool) else str(_relative(default))
    return f"`{shown}`"


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _header(title: str, source: str) -> str:
    return f"# {title}\n\n<!-- Generated by docs/generate.py from {source}: edit that, then `make docs`. -->"


def _document(parts: list[str]) -> str:
    return "\n\n".join(parts) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "reference/codes.md": codes,
    "reference/events.md": events,
    "reference/settings.md": settings,
    "reference/commands.md": commands,
    "reference/routes.md": routes,
    "reference/openapi.json": partial(openapi, _EXAMPLE_BASE),
    **{f"codes/{code}.md": partial(code_page, code) for code in Code},
}
"""What is written where under `docs/`."""


def main() -> None:
    if changed := changed_schemas():
        sys.exit("\n".join(changed))
    for name, content in {**{name: written() for name, written in PAGES.items()}, **event_schemas()}.items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(content, encoding="utf-8")


if __name__ == "__main__":
    main()
