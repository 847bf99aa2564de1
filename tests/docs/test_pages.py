"""What the pages refer to exists: links, commands, targets, variables, routes."""

import importlib
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer

from runtime.cli.main import COMMANDS
from runtime.settings import Settings
from tests.docs.written import DEPLOYED, PAGES, ROOT, anchors, command_lines, fenced, links

pages = pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))


def accept(line: list[str]) -> None:
    """Parse a command line as the program would, without running it. Raises typer's usage errors."""
    name, *rest = line
    if name == "--help":
        return
    command: Any = typer.main.get_command(importlib.import_module(COMMANDS[name][0]).app)
    if getattr(command, "commands", None):
        if not rest:  # a group is only mentioned
            return
        command, rest = command.commands[rest[0]], rest[1:]
    command.make_context(name, [part for part in rest if part != "--help"])


def counterseal_lines(text: str) -> list[list[str]]:
    found: list[list[str]] = []
    for line in command_lines(text):
        typed = re.sub(r"\s+#.*", "", line.removeprefix("$ ")).strip()
        match = re.match(r"(?:[A-Z_]+=\S+ )*(?:\S*/)?counterseal ([a-z-].*)", typed)
        if match and "…" not in match[1]:
            found.append(shlex.split(re.split(r" [|>&]", match[1])[0]))
    return found


@pages
def test_commands_are_accepted(page: Path) -> None:
    for line in counterseal_lines(page.read_text(encoding="utf-8")):
        try:
            accept(line)
        except (KeyError, IndexError, typer.TyperException) as error:
            pytest.fail(f"{page.name}: counterseal {shlex.join(line)}: {error}")


def test_a_wrong_command_is_noticed() -> None:
    for wrong in (["play"], ["up", "--prot", "1"], ["calls", "delete"], ["worker", "extra"]):
        with pytest.raises((KeyError, typer.TyperException)):
            accept(wrong)
    assert counterseal_lines("```sh\ncounterseal up --port 1  # comment\n```\nand `counterseal calls list | head`") == [
        ["up", "--port", "1"],
        ["calls", "list"],
    ]


@pages
def test_links_resolve(page: Path) -> None:
    for target in links(page.read_text(encoding="utf-8")):
        if target.startswith(("https://", "http://")):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name}: {target}"
        if anchor:
            assert anchor in anchors(file.read_text(encoding="utf-8")), f"{page.name}: {target}"


@pages
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for line in command_lines(page.read_text(encoding="utf-8")):
        for target in re.findall(r"^(?:\$ )?make ([a-z-]+)", line):
            assert target in targets, f"{page.name}: make {target}"


def _variables() -> set[str]:
    """The settings, and what commands read from the environment."""
    known = {f"COUNTERSEAL_{name.upper()}" for name in Settings.model_fields}
    for module in (ROOT / "runtime" / "cli").glob("*.py"):
        source = module.read_text(encoding="utf-8")
        known.update(re.findall(r"(?:envvar=|_VARIABLE = )\"(COUNTERSEAL_\w+)\"", source))
    return known | {"COUNTERSEAL_DATA", "COUNTERSEAL_DEBUG"}


@pytest.mark.parametrize("file", [*PAGES, *DEPLOYED], ids=lambda file: str(file.relative_to(ROOT)))
def test_variables_exist(file: Path) -> None:
    named = set(re.findall(r"COUNTERSEAL_[A-Z_]*[A-Z]", file.read_text(encoding="utf-8")))
    assert named - _variables() == set()


@pages
def test_files_that_are_named_exist(page: Path) -> None:
    """`runtime/settings.py` in a sentence is a promise that it is there."""
    text = page.read_text(encoding="utf-8")
    for _, content in fenced(text):
        text = text.replace(content, "")
    roots = (
        "client|schemas|policy|tools|gateways|ledger|notices|activities|workflows|api|runtime|sandbox|tests|docs|deploy"
    )
    for name in re.findall(rf"`((?:{roots})/[\w./-]*)`", text):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


def test_every_decision_is_listed() -> None:
    index = (ROOT / "docs" / "adr" / "README.md").read_text(encoding="utf-8")
    for record in (ROOT / "docs" / "adr").glob("0*.md"):
        assert f"]({record.name})" in index
        text = record.read_text(encoding="utf-8")
        for heading in ("## Context", "## Decision", "## Consequences", "## Alternatives"):
            assert f"\n{heading}\n" in text, f"{record.name}: {heading}"


def test_log_events_are_explained() -> None:
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    sources = [path for folder in ("api", "activities", "runtime") for path in (ROOT / folder).rglob("*.py")]
    logged = {
        name
        for path in sources
        for name in re.findall(
            r"_log\.(?:warning|error|info|exception)\(\s*\"(\w+)\"", path.read_text(encoding="utf-8")
        )
    }
    assert {name for name in logged if f"`{name}`" not in page} == set()
