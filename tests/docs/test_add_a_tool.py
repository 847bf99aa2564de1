"""The tools of the how-to page load, and the sections of policy beside them are taken."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import tools
from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
from runtime.scaffold import scaffold
from runtime.testing import ToolUnderTest
from tests.docs.how_to import FILES, PAGE, write_tool
from tests.docs.written import ROOT
from tools.catalog import Catalog


@pytest.fixture
def catalog(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Catalog:
    monkeypatch.setattr(tools, "__path__", list(tools.__path__))  # loading appends the extra folder
    for name in ("send_money", "track_order"):
        write_tool(tmp_path, name)
    return Catalog.load(tmp_path)


def test_the_examples_are_whole_tools(catalog: Catalog) -> None:
    assert {path.partition("/")[0] for path in FILES} == {"send_money", "track_order"}
    for name in ("send_money", "track_order"):
        entry = catalog.get(name)
        assert entry in catalog.published()
        assert entry is not None
        assert (entry.manifest.missing, entry.policy_file is not None) == ((), True)


def test_the_policy_takes_the_sections_beside_them_into_its_version(catalog: Catalog, tmp_path: Path) -> None:
    policy = load_checked(DEFAULT_POLICY, catalog)
    sending, tracking = policy.tool("send_money"), policy.tool("track_order")
    assert sending is not None
    assert tracking is not None
    assert [rule.name for rule in sending.holds] == ["chained", "over_threshold", "new_recipient"]
    assert tracking.otherwise == "free"
    assert policy.version != load_checked(DEFAULT_POLICY, Catalog.load()).version
    assert set(policy.document.tools) >= {"send_money", "track_order"}


def test_the_red_tests_of_the_example_hold(catalog: Catalog, tmp_path: Path) -> None:
    file = tmp_path / "send_money" / "tests" / "test_send_money.py"
    tests: dict[str, Any] = {"__file__": str(file), "__name__": "test_send_money"}
    exec(compile(file.read_text(encoding="utf-8"), file, "exec"), tests)
    tool: ToolUnderTest = tests["TOOL"]
    cases = tool.red_cases(tests["CALL"], tests["FACTS"])
    assert len(cases) > 60
    for case in cases:
        case.check()
    for rule in tests["RULES"]:
        tests["test_a_rule_decides"](*rule)
    for name in ("test_the_manifest_says_everything", "test_an_ordinary_call_runs", "test_every_rule_is_tried"):
        tests[name]()


@pytest.mark.parametrize("declared", [True, False])
def test_a_scaffold_loads_and_its_tests_are_red(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, declared: bool
) -> None:
    monkeypatch.setattr(tools, "__path__", list(tools.__path__))
    name = "send_cash" if declared else "send_coins"
    made = scaffold(tmp_path, name, declared=declared)
    assert {file.name for file in made} == {
        "manifest.yaml",
        "policy.yaml",
        f"test_{name}.py",
        "http.yaml" if declared else "tool.py",
    }
    tool = ToolUnderTest.load(tmp_path / name)
    assert {"owner", "blast_radius", "published"} <= set(tool.manifest.missing)
    with pytest.raises(AssertionError, match="the example is not taken either"):
        tool.red_cases({})[0].check()
    tests = (tmp_path / name / "tests" / f"test_{name}.py").read_text()
    example = FILES["send_money/tests/test_send_money.py"]
    assert tests.partition("@pytest")[2] == example.partition("@pytest")[2]
    with pytest.raises(FileExistsError):
        scaffold(tmp_path, name, declared=True)
    sys.modules.pop(f"tools.{name}.tool", None)


def test_every_part_of_a_write_is_explained() -> None:
    source = (ROOT / "tools" / "protocol.py").read_text(encoding="utf-8")
    abstract = re.findall(r"@abstractmethod\n    (?:async )?def (\w+)", source.partition("class WriteTool")[2])
    assert [name for name in abstract if f"`{name}`" not in PAGE] == []
