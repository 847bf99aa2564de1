"""The written side of the project, as its tests read it."""

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("sandbox/*.md"),
        *ROOT.glob("client/*.md"),
        ROOT / "client/typescript/README.md",
    }
)
DEPLOYED = sorted(
    {
        ROOT / "docker-compose.yaml",
        ROOT / "Dockerfile",
        *(path for path in ROOT.glob("deploy/**/*.*") if path.is_file()),
    }
)

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
_INLINE = re.compile(r"`([^`\n]+)`")
_SHELL = ("sh", "bash", "console")


def fenced(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of each fenced block."""
    for match in _FENCE.finditer(text):
        yield match[1], match[2]


def command_lines(text: str) -> Iterator[str]:
    """What a page tells its reader to type: the lines of shell blocks, and code within a sentence."""
    for language, content in fenced(text):
        if language in _SHELL:
            yield from content.replace("\\\n", " ").splitlines()
    yield from _INLINE.findall(_FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.+)$", _FENCE.sub("", text), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def links(text: str) -> list[str]:
    """Targets of a page's links and images, code left out."""
    bare = _INLINE.sub("", _FENCE.sub("", text))
    return re.findall(r"\]\(([^)\s]+)\)", bare)
