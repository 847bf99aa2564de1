"""The files that the how-to page about tools shows, as its reader makes them."""

import re
from pathlib import Path

from tests.docs.written import ROOT

PAGE = (ROOT / "docs" / "how-to" / "add-a-tool.md").read_text(encoding="utf-8")
_FILE = re.compile(r"^`our_tools/([^`]+)`:\n\n```\w+\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = dict(_FILE.findall(PAGE))
"""What stands in each file, by its path below `our_tools`."""


def write_tool(root: Path, name: str = "send_money") -> Path:
    """The folder of a tool as the page has it, below `root`."""
    for path, content in FILES.items():
        if path.startswith(f"{name}/"):
            file = root / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")
    return root / name
