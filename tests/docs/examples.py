"""The fenced blocks of the pages, and what becomes of each in the tests.

A block of shell or Python is run, in the order of its page, as one session. What a reader sees and nobody runs says so
in a comment right above it: `<!-- prints -->` is what the block before it prints, up to ids and times, and
`<!-- not run: … -->` gives the reason. `<!-- file: … -->` is a file of the project, shown whole.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from tests.docs.written import PAGES, ROOT

ELSEWHERE = {
    "docs/how-to/add-a-tool.md": "tests/docs/test_add_a_tool.py",
    "docs/how-to/put-a-gate-before-an-mcp-server.md": "tests/shop.py",
    "docs/how-to/use-your-agent-framework.md": "tests/e2e/test_client_examples.py",
    "docs/reference/commands.md": "tests/docs/test_pages.py",
}
"""Pages whose files and examples tests of their own read, and which. Their shell is not excepted, but for the reference
of all commands, whose examples are parsed."""

# What is done in an outage, and transcripts of outages that were made by hand: nothing of it fits a stack that works.
RUNBOOKS = "docs/runbooks/"

_BLOCK = re.compile(
    r"(?:^<!-- (?P<mark>(?:prints|not run:|file:)[^>]*?)-->\n+)?"
    r"^(?P<indent> *)```(?P<language>\w*)\n(?P<content>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
# A path from the root or from home, other than where nothing is kept.
_OUTSIDE = re.compile(r"(?<![\w.:/)}$\\*])(?:/(?!dev/null\b)\w|~/)")
# What differs from one time to the next.
_VARYING = (
    (re.compile(r"\b([a-z]{2,3})_(?:[0-9a-f]{32}|[0-9a-f]{24}|[0-9a-f]{16})\b"), r"\1_…"),
    (re.compile(r"\bcs_(\w{3})_[\w-]+"), r"cs_\1_…"),
    (re.compile(r"\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:\.\d+)?Z"), "…Z"),
    (re.compile(r"\b[0-9a-f]{12}(?: +\d+)? *$", re.MULTILINE), "…"),
    (re.compile(r"@[0-9a-f]{12}\b"), "@…"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "…"),
    (re.compile(r"\b[0-9a-f]{32}\b"), "…"),
    # What the gateway reports by itself comes when it comes.
    (re.compile(r"^.* effect\.inspected .*\n", re.MULTILINE), ""),
    (re.compile(r"The chain of \d+ hashes"), "The chain of … hashes"),
    (re.compile(r"http://127\.0\.0\.1:\d+"), "http://127.0.0.1:…"),
)


@dataclass(frozen=True)
class Example:
    """One block. `mark` is the comment above it."""

    page: Path
    line: int
    language: str
    content: str
    mark: str

    def __str__(self) -> str:
        return f"{self.page.relative_to(ROOT)}:{self.line}"

    @property
    def elsewhere(self) -> bool:
        """Whether it is another test's to read or run."""
        name = self.page.relative_to(ROOT).as_posix()
        if name in ELSEWHERE:
            return self.language != "sh" or name == "docs/reference/commands.md"
        return name.startswith(RUNBOOKS)

    @property
    def prints(self) -> bool:
        return self.mark == "prints"

    @cached_property
    def reason(self) -> str | None:
        """Why it is not run."""
        kind, _, reason = self.mark.partition(":")
        return reason.strip() if kind == "not run" else None

    @property
    def file(self) -> Path | None:
        """What it shows."""
        kind, _, name = self.mark.partition(":")
        return ROOT / name.strip() if kind == "file" else None

    @property
    def leaves_its_folder(self) -> bool:
        """Whether it names a place outside of the folder that its session has: then nobody runs it in a test."""
        return _OUTSIDE.search(re.sub(r"(?m)(?:^|\s)#.*$", "", self.content)) is not None

    @property
    def is_run(self) -> bool:
        """Whether a session of its page runs it."""
        return self.language in ("sh", "python") and not self.mark and not self.elsewhere


def examples(page: Path) -> Iterator[Example]:
    """The blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    for found in _BLOCK.finditer(text):
        line = text.count("\n", 0, found.start("language")) + 1
        yield Example(page, line, found["language"], found["content"], (found["mark"] or "").strip())


def session_pages(language: str) -> list[str]:
    """The pages with a block of the language that a session runs."""
    return [
        page.relative_to(ROOT).as_posix()
        for page in PAGES
        if any(each.is_run and each.language == language for each in examples(page))
    ]


def settled(output: str) -> str:
    """An output without what differs each time: ids, times, addresses, and how wide a table is."""
    for pattern, instead in _VARYING:
        output = pattern.sub(instead, output)
    lines = (" ".join(line.split()) for line in output.splitlines())
    return "\n".join(line for line in lines if line.strip("─━ "))
