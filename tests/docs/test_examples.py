"""Nothing on a page is only claimed: what is not run says why, and data is read by what it is written for."""

import json
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from notices.file import load_notices
from policy.load import DEFAULT_POLICY
from runtime.evaluation.slices import read_set
from runtime.policy import load_checked
from tests.docs.examples import ELSEWHERE, Example, examples, session_pages
from tests.docs.written import PAGES, ROOT
from tools.catalog import Catalog

ALL = [each for page in PAGES for each in examples(page)]
READ = [each for each in ALL if not each.mark and not each.elsewhere]


def of(language: str) -> Any:
    return pytest.mark.parametrize("example", [each for each in READ if each.language == language], ids=str)


def test_each_block_is_run_or_read_or_says_why_not() -> None:
    """Shell and Python are run in tests/e2e by test_examples.py and test_client_pages.py, diagrams drawn by
    test_site.py."""
    read = {"sh", "python", "json", "yaml", "mermaid"}
    assert [str(each) for each in READ if each.language not in read] == []
    assert [str(each) for each in ALL if each.mark and not (each.prints or each.reason or each.file)] == []


def test_nothing_that_is_run_leaves_its_folder() -> None:
    assert [str(each) for each in READ if each.language == "sh" and each.leaves_its_folder] == []
    for line in ("counterseal backup --out /backups/monday", "cp x ~/y", "x --to=/srv/x", "cat </etc/hosts"):
        assert replace(READ[0], content=line).leaves_its_folder, line
    for line in ("curl $API/v1/runs http://127.0.0.1/mcp", "make > /dev/null", "call/default/x", "cat audit/x"):
        assert not replace(READ[0], content=line).leaves_its_folder, line


def test_no_block_is_overlooked() -> None:
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        assert text.count("```") == 2 * len([*examples(page)]), page
        assert text.count("<!-- prints") + text.count("<!-- not run") + text.count("<!-- file") == sum(
            bool(each.mark) for each in examples(page)
        ), f"{page}: a comment stands right above its block"


def test_what_runs_elsewhere_is_there() -> None:
    for name, test in ELSEWHERE.items():
        if (ROOT / name).exists():
            assert (ROOT / test).exists(), name
    client_pages = (ROOT / "tests" / "e2e" / "test_client_pages.py").read_text(encoding="utf-8")
    assert [name for name in session_pages("python") if name not in client_pages] == []


def test_reasons_name_tests_that_are_there() -> None:
    for each in ALL:
        for word in (each.reason or "").replace(";", " ").split():
            if word.startswith("tests/"):
                assert (ROOT / word).exists(), each


@pytest.mark.parametrize("example", [each for each in ALL if each.file], ids=str)
def test_a_file_is_shown_as_it_is(example: Example) -> None:
    assert example.file is not None
    assert example.file.read_text(encoding="utf-8") == example.content


@of("json")
def test_json_is_json(example: Example) -> None:
    json.loads(example.content)


@of("yaml")
def test_yaml_is_read_by_what_it_is_for(example: Example, tmp_path: Path) -> None:
    file = tmp_path / "example.yaml"
    content = textwrap.dedent(example.content)
    found = yaml.safe_load(content)
    if "slices" in found:
        file.write_text(content, encoding="utf-8")
        assert read_set([file]).slices
    elif "channels" in found:
        file.write_text(content, encoding="utf-8")
        assert load_notices(file).routes
    else:
        file.write_text(yaml.safe_dump(_within_the_default(found), sort_keys=False), encoding="utf-8")
        load_checked(file, Catalog.load())


def _within_the_default(found: Any) -> Any:
    """The default policy with an excerpt put in its place: a document, tools, or rules of a refund."""
    policy = yaml.safe_load(DEFAULT_POLICY.read_text(encoding="utf-8"))
    if isinstance(found, list):
        found = {"tools": {"issue_refund": {"rules": found}}}
    elif not found.keys() <= policy.keys() | {"across"}:
        found = {"tools": found}
    return _merged(policy, found)


def _merged(under: Any, over: Any) -> Any:
    if isinstance(under, dict) and isinstance(over, dict):
        return {name: _merged(under.get(name), over.get(name, under.get(name))) for name in under | over}
    if isinstance(under, list) and all(isinstance(each, dict) for each in over):
        named = {each["name"] for each in over}
        return [*over, *(each for each in under if each["name"] not in named)]
    return over
