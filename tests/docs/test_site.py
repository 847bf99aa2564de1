"""The site of the documentation is built without a warning, is whole, and asks nobody else for anything."""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from playwright.async_api import async_playwright, expect

from tests.browser.conftest import ARGUMENTS, chromium
from tests.docs.examples import examples
from tests.docs.written import ROOT

ZENSICAL = Path(sys.executable).with_name("zensical")
SCRIPTS = ("javascripts/mermaid.js", "javascripts/iframe-worker.js")
# A link may lead elsewhere; what a page loads may not.
_LOADED = {("script", "src"), ("img", "src"), ("link", "href"), ("source", "srcset"), ("iframe", "src")}
_NOT_LOADED = {"canonical", "next", "prev"}


@dataclass
class Page(HTMLParser):
    """What one page of the site loads and links to, and the ids that can be linked to."""

    loads: list[str] = field(default_factory=list[str])
    links: list[str] = field(default_factory=list[str])
    ids: set[str] = field(default_factory=set[str])

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name, value in attrs:
            if value and name in ("id", "name"):
                self.ids.add(value)
            if value and (tag, name) in _LOADED and given.get("rel") not in _NOT_LOADED:
                self.loads.append(value)
            elif value and (tag, name) == ("a", "href"):
                self.links.append(value)


def build(root: Path) -> subprocess.CompletedProcess[str]:
    """Build the site of `root`, as `make docs` does."""
    environment = {"PATH": os.environ["PATH"], "NO_COLOR": "1"}
    command = [str(ZENSICAL), "build", "--strict"]
    return subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, timeout=120)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not ZENSICAL.exists() or any(not (ROOT / "docs" / script).exists() for script in SCRIPTS):
        pytest.fail("what builds the documentation is not installed: make docs")
    root = tmp_path_factory.mktemp("site")
    (root / "zensical.toml").write_bytes((ROOT / "zensical.toml").read_bytes())
    shutil.copytree(ROOT / "docs", root / "docs", ignore=shutil.ignore_patterns("__pycache__"))
    built = build(root)
    said = re.sub(r"\x1b\[[\d;]*m", "", built.stdout + built.stderr).partition("Traceback")[0]
    assert built.returncode == 0, said
    assert "warning" not in said.lower(), said
    return root / "site"


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[Path, Page]:
    found: dict[Path, Page] = {}
    for file in site.rglob("*.html"):
        page = found[file] = Page()
        page.feed(file.read_text(encoding="utf-8"))
    return found


def test_every_page_is_in_it(site: Path, pages: dict[Path, Page]) -> None:
    for page in ROOT.glob("docs/**/*.md"):
        html = page.relative_to(ROOT / "docs").with_suffix(".html")
        if html.stem == "README":
            html = html.with_stem("index")
        assert site / html in pages
        # In the navigation of its section, which the first page shows whole.
        assert html == Path("index.html") or f"./{html}" in pages[site / "index.html"].links, (
            f"{page} is nowhere listed"
        )
    assert not [*site.rglob("*.py"), *site.rglob("*.md")]


def test_a_page_loads_nothing_from_elsewhere(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        assert page.loads
        for loaded in page.loads:
            url = urlsplit(loaded)
            assert not url.scheme + url.netloc, f"{file.relative_to(site)} loads {loaded}"
            root = site if loaded.startswith("/") else file.parent
            assert (root / unquote(url.path).lstrip("/")).is_file(), f"{file.relative_to(site)} loads {loaded}"


def test_links_lead_somewhere(site: Path, pages: dict[Path, Page]) -> None:
    for file, page in pages.items():
        if file.name == "404.html":  # its links are the site's own, from wherever it is shown
            continue
        for link in page.links:
            url = urlsplit(link)
            if url.scheme in ("http", "https"):
                continue
            target = (file.parent / unquote(url.path)).resolve() if url.path else file
            if target.is_dir():
                target /= "index.html"
            assert target.is_file(), f"{file.relative_to(site)} links to {link}"
            if url.fragment and target in pages:
                assert unquote(url.fragment) in pages[target].ids, f"{file.relative_to(site)} links to {link}"


async def test_in_a_browser_diagrams_are_drawn_and_the_search_finds_without_a_network(site: Path) -> None:
    diagrams = {
        page.relative_to(ROOT / "docs").with_suffix(".html"): sum(each.language == "mermaid" for each in examples(page))
        for page in ROOT.glob("docs/**/*.md")
    }
    asked: list[str] = []
    complaints: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium(), args=list(ARGUMENTS))
        page = await browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
        for name in (name for name, count in diagrams.items() if count):
            await page.goto((site / name).as_uri())
            drawn = page.locator("div.mermaid")  # what is left of the text is a pre
            await expect(drawn).to_have_count(diagrams[name])
            for number in range(diagrams[name]):
                box = await drawn.nth(number).bounding_box()
                assert box is not None
                assert box["height"] > 50
        await page.keyboard.press("/")
        await page.keyboard.type("erase a customer")
        await expect(page.locator("a[href*='keys.html']").filter(has_text="customer").last).to_be_visible()
        await browser.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []


def test_a_broken_link_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "zensical.toml").write_text('[project]\nsite_name = "Example"\n', encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text("# Example\n\n[gone](gone.md)\n", encoding="utf-8")
    assert build(tmp_path).returncode != 0
