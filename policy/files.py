"""Reads policy files: YAML without its surprises, and the shape of what it holds."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, cast

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from policy.document import STORED, AcrossText, Defaults, KindName, PolicyDocument, PolicyName, ToolText
from policy.problems import PolicyError, Problem
from schemas import strict_yaml
from schemas.base import Model
from schemas.tools import ToolName


class _PolicyFile(Model):
    """One file. In a folder, one of the files holds the defaults."""

    name: PolicyName
    defaults: Defaults | None = None
    across: dict[KindName, AcrossText] = Field(default_factory=dict[str, AcrossText])
    tools: dict[ToolName, ToolText] = Field(default_factory=dict[str, ToolText])


class Loaded(NamedTuple):
    """A policy and the file that each of its tools and kinds comes from."""

    document: PolicyDocument
    file_of: dict[str, str]


def read_document(path: Path) -> Loaded:
    """The policy in a file, or in all `*.yaml` files of a folder together. Raises PolicyError."""
    paths = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    if not paths:
        raise PolicyError([Problem(str(path), "", "the folder holds no *.yaml file")])
    files: dict[str, _PolicyFile] = {}
    problems: list[Problem] = []
    for each in paths:
        try:
            files[str(each)] = _read_file(each)
        except PolicyError as error:
            problems.extend(error.problems)
    if problems:
        raise PolicyError(problems)
    return _joined(path, files)


def with_own(loaded: Loaded, beside: Mapping[str, Path]) -> Loaded:
    """The policy, and of the tools that it does not name the section that lies beside each. Raises PolicyError."""
    tools, file_of, problems = dict(loaded.document.tools), dict(loaded.file_of), list[Problem]()
    for name, file in sorted(beside.items()):
        if name in tools:
            continue
        try:
            tools[name], file_of[name] = _read_section(name, file), str(file)
        except PolicyError as error:
            problems.extend(error.problems)
    if problems:
        raise PolicyError(problems)
    return Loaded(loaded.document.model_copy(update={"tools": tools}), file_of)


def _read_section(name: str, path: Path) -> ToolText:
    try:
        content = strict_yaml.read(path)
    except strict_yaml.UnreadableError as error:
        raise PolicyError([Problem(str(path), "", str(error))]) from None
    try:
        return ToolText.model_validate_json(content.as_json)
    except ValidationError as error:
        within = {"tools": {name: content.value}}
        errors = [{**each, "loc": ("tools", name, *each["loc"])} for each in error.errors()]
        raise PolicyError([_shape_problem(str(path), within, cast(ErrorDetails, each)) for each in errors]) from None


def read_text(text: str, where: str) -> Loaded:
    """The policy in a YAML text, which `where` names in problems. Raises PolicyError."""
    try:
        content = strict_yaml.content_of(text)
    except strict_yaml.UnreadableError as error:
        raise PolicyError([Problem(where, "", str(error))]) from None
    return _joined(Path(where), {where: _file(where, content)})


def read_stored(source: str, where: str) -> Loaded:
    """The policy that was stored as JSON, durations in seconds. Raises PolicyError."""
    try:
        document = PolicyDocument.model_validate_json(source, context=STORED)
    except ValidationError as error:
        found = [_shape_problem(where, None, each) for each in error.errors()]
        raise PolicyError(found) from None
    return Loaded(document, dict.fromkeys(document.tools, where))


def _joined(path: Path, files: dict[str, _PolicyFile]) -> Loaded:
    problems: list[Problem] = []
    first = next(iter(files.values()))
    defaults: Defaults | None = None
    across: dict[str, AcrossText] = {}
    tools: dict[str, ToolText] = {}
    file_of: dict[str, str] = {}
    for name, content in files.items():
        if content.name != first.name:
            problems.append(Problem(name, "name", f"is {content.name}, another file of the policy says {first.name}"))
        if content.defaults is not None and defaults is not None:
            problems.append(Problem(name, "defaults", "another file of the policy has them already"))
        defaults = content.defaults or defaults
        for key in (*content.across, *content.tools):
            if key in file_of:
                problems.append(Problem(name, key, f"is in {file_of[key]} already"))
            file_of[key] = name
        across |= content.across
        tools |= content.tools
    if defaults is None:
        problems.append(Problem(str(path), "defaults", "is missing"))
    if problems or defaults is None:
        raise PolicyError(problems)
    return Loaded(PolicyDocument(name=first.name, defaults=defaults, across=across, tools=tools), file_of)


def _read_file(path: Path) -> _PolicyFile:
    try:
        content = strict_yaml.read(path)
    except strict_yaml.UnreadableError as error:
        raise PolicyError([Problem(str(path), "", str(error))]) from None
    return _file(str(path), content)


def _file(where: str, content: strict_yaml.Content) -> _PolicyFile:
    try:
        return _PolicyFile.model_validate_json(content.as_json)
    except ValidationError as error:
        raise PolicyError([_shape_problem(where, content.value, each) for each in error.errors()]) from None


def _shape_problem(file: str, content: object, error: ErrorDetails) -> Problem:
    """A validation error in the words of the file: rules and limits by name instead of number."""
    steps: list[str] = []
    value = content
    for step in error["loc"]:
        if step == "[key]":
            continue
        if isinstance(value, dict):
            value = cast(dict[Any, object], value).get(step)
        elif isinstance(value, list) and isinstance(step, int):
            value = cast(list[object], value)[step]
        name = cast(dict[str, object], value).get("name") if isinstance(value, dict) and isinstance(step, int) else None
        steps.append(name if isinstance(name, str) else f"no. {step + 1}" if isinstance(step, int) else step)
    if steps[:1] == ["tools"] and len(steps) > 1:
        steps = [step for step in steps[1:] if step != "rules"]
    return Problem(file, " / ".join(steps), strict_yaml.said(error))
