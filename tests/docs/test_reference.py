"""The generated reference says what the code says."""

import re

import pytest

from docs import generate
from runtime.cli.main import COMMANDS
from runtime.settings import Settings
from schemas.codes import REGISTRY, Code
from tests.docs.written import ROOT


@pytest.mark.parametrize("name", generate.PAGES)
def test_is_current(name: str) -> None:
    written = (generate.DOCS / name).read_text(encoding="utf-8")
    assert written == generate.PAGES[name](), f"docs/{name} is out of date: run `make docs`"


@pytest.mark.parametrize("code", Code)
def test_every_code_has_its_section(code: Code) -> None:
    page = (generate.REFERENCE / "codes.md").read_text(encoding="utf-8")
    section = re.search(rf"^## {code}\n\n(.*?)(?=^## |\Z)", page, re.MULTILINE | re.DOTALL)
    assert section is not None
    assert REGISTRY[code].message in section[1]
    assert f"HTTP {REGISTRY[code].http_status};" in section[1]


def test_no_page_is_about_a_code_that_is_gone() -> None:
    assert {path.stem for path in (generate.DOCS / "codes").glob("*.md")} == set(Code)


def test_every_setting_is_explained() -> None:
    page = (generate.REFERENCE / "settings.md").read_text(encoding="utf-8")
    for name in Settings.model_fields:
        row = re.search(rf"^\| `COUNTERSEAL_{name.upper()}` \|.*\| (.*) \|$", page, re.MULTILINE)
        assert row is not None, name
        assert row[1].strip(), f"COUNTERSEAL_{name.upper()} has no docstring"


def test_every_command_is_there() -> None:
    page = (generate.REFERENCE / "commands.md").read_text(encoding="utf-8")
    assert [name for name in COMMANDS if f"\n## counterseal {name}\n" not in page] == []


def test_nothing_of_this_machine_is_in_it() -> None:
    for page in generate.REFERENCE.glob("*.md"):
        assert str(ROOT) not in page.read_text(encoding="utf-8"), page.name
