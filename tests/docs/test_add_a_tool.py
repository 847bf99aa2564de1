"""The tools of the how-to page load, and the sections of policy beside them are taken."""

import re
from pathlib import Path

import pytest

import tools
from policy.load import DEFAULT_POLICY
from runtime.policy import load_checked
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
    assert [rule.name for rule in sending.holds] == ["over_threshold", "new_recipient"]
    assert tracking.otherwise == "free"
    assert policy.version != load_checked(DEFAULT_POLICY, Catalog.load()).version
    assert set(policy.document.tools) >= {"send_money", "track_order"}


def test_every_part_of_a_write_is_explained() -> None:
    source = (ROOT / "tools" / "protocol.py").read_text(encoding="utf-8")
    abstract = re.findall(r"@abstractmethod\n    (?:async )?def (\w+)", source.partition("class WriteTool")[2])
    assert [name for name in abstract if f"`{name}`" not in PAGE] == []
