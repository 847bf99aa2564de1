"""The tool of the how-to page loads, and the policy lines that it shows are taken."""

import re
from pathlib import Path

from runtime.policy import load_checked
from tests.docs.written import ROOT, fenced
from tools.catalog import Catalog

PAGE = (ROOT / "docs" / "how-to" / "add-a-tool.md").read_text(encoding="utf-8")


def test_the_example_works(tmp_path: Path) -> None:
    folder = tmp_path / "our_tools" / "track_order"
    folder.mkdir(parents=True)
    blocks = [content for language, content in fenced(PAGE) if language in ("yaml", "python")]
    manifest, code, rules = blocks
    (folder / "manifest.yaml").write_text(manifest, encoding="utf-8")
    (folder / "tool.py").write_text(code, encoding="utf-8")
    default = (ROOT / "policy" / "policies" / "default.yaml").read_text(encoding="utf-8")
    policy_file = tmp_path / "ours.yaml"
    policy_file.write_text(f"{default}\n{rules}", encoding="utf-8")

    catalog = Catalog.load(tmp_path / "our_tools")
    entry = catalog.get("track_order")
    assert entry in catalog.published()

    decided = load_checked(policy_file, catalog).tool("track_order")
    assert decided is not None
    assert decided.otherwise == "free"


def test_every_part_of_a_write_is_explained() -> None:
    source = (ROOT / "tools" / "protocol.py").read_text(encoding="utf-8")
    abstract = re.findall(r"@abstractmethod\n    (?:async )?def (\w+)", source.partition("class WriteTool")[2])
    assert [name for name in abstract if f"`{name}`" not in PAGE] == []
