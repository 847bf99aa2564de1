"""Tools are folders; a folder that does not hold together is named with file and field."""

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from schemas.tools import DECLARED
from tools.catalog import BUILT_IN, Catalog, CatalogError
from tools.manifest import load_manifest

MANIFEST = """\
name: {name}
version: 1.0.0
owner: tests
title: A test tool
description: Looks something up. Use it in tests, not elsewhere.
operation: lookup
writes: false
queue: orders
risk: low
capability_classes: [read_public]
reversibility: reversible
blast_radius: {{ rows: 20, accounts: 0, tenants: 0, people: 0 }}
side_effects: []
scopes: []
roles: []
idempotency: natural
timeout_seconds: 5
repeatable: true
egress: [orders]
credential: null
result_max_items: 20
result_max_bytes: 4096
trace: []
redact: []
published: true
"""
CODE = """\
from schemas.base import Model
from tools.protocol import Arguments, ReadTool


class Words(Arguments):
    words: list[str]


class Found(Model):
    words: tuple[str, ...]
    count: int
    truncated: bool


class Tool(ReadTool[Words, Found]):
    name = "{name}"
    arguments_model = Words
    result_model = Found

    async def read(self, arguments, binding, systems):
        return Found(words=tuple(arguments.words), count=len(arguments.words), truncated=False)

    def is_empty(self, result):
        return not result.words

    def done(self, arguments, result):
        return "words"


TOOL = Tool()
"""


class Folder:
    """A tools path of the test's own."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def add(self, name: str, manifest: str | None = None, code: str | None = None) -> Path:
        folder = self.root / name
        folder.mkdir()
        (folder / "__init__.py").write_text("")
        (folder / "manifest.yaml").write_text(MANIFEST.format(name=name) if manifest is None else manifest)
        (folder / "tool.py").write_text(CODE.format(name=name) if code is None else code)
        return folder


@pytest.fixture
def extra(tmp_path: Path) -> Iterator[Folder]:
    """An extra tools path; what was imported from it is forgotten afterwards."""
    before, path = set(sys.modules), list(tools.__path__)
    yield Folder(tmp_path)
    for name in set(sys.modules) - before:
        del sys.modules[name]
    tools.__path__[:] = path


def problems(extra: Folder) -> list[str]:
    with pytest.raises(CatalogError) as caught:
        Catalog.load(extra.root)
    return [each.replace(str(extra.root), "EXTRA") for each in caught.value.problems]


def test_the_built_in_tools_hold_together(catalog: Catalog) -> None:
    published = [entry.manifest.name for entry in catalog.published()]
    assert published == [
        "cancel_order",
        "change_shipping_address",
        "create_ticket_reply_draft",
        "draft_refund_request",
        "get_refund_eligibility",
        "get_refund_history",
        "issue_account_credit",
        "issue_refund",
        "lookup_account",
        "lookup_orders",
        "lookup_shipment",
        "post_approved_ticket_reply",
        "search_help_articles",
        "submit_refund_for_approval",
    ]
    internal = {entry.manifest.name for entry in catalog.all()} - set(published)
    assert internal == {"reinstate_order", "reset_order"}
    assert catalog.get("issue_refund") is not None
    assert catalog.get("no_such_tool") is None


@pytest.mark.parametrize(
    ("tool", "read_only", "destructive"),
    [("issue_refund", False, True), ("cancel_order", False, False), ("lookup_orders", True, False)],
)
def test_annotations_are_those_of_the_manifest(catalog: Catalog, tool: str, read_only: bool, destructive: bool) -> None:
    annotations = catalog.describe(tool).annotations
    assert annotations["readOnlyHint"] is read_only
    assert annotations["destructiveHint"] is destructive
    assert annotations["idempotentHint"] is True
    assert isinstance(annotations["title"], str)


def test_schemas_are_closed_at_every_level_and_name_no_identity(catalog: Catalog) -> None:
    for entry in catalog.all():
        described = entry.description
        for schema in (described.input_schema, described.output_schema):
            assert schema["additionalProperties"] is False
            definitions = schema.get("$defs", {})
            assert isinstance(definitions, dict)
            assert all(each["additionalProperties"] is False for each in definitions.values())  # pyright: ignore[reportUnknownVariableType]
        text = str(described.input_schema)
        assert not any(word in text for word in ("customer_id", "actor_id", "tenant"))


def test_descriptions_say_when_to_use_another_tool(catalog: Catalog) -> None:
    for entry in catalog.published():
        assert "Use it" in entry.manifest.description
        assert "Do not use it" in entry.manifest.description
        others = {other.manifest.name for other in catalog.published()} - {entry.manifest.name}
        assert any(other in entry.manifest.description for other in others)
        assert "reinstate_order" not in entry.manifest.description


def test_a_tool_of_an_extra_path_is_like_any_other(extra: Folder) -> None:
    extra.add("find_words")
    catalog = Catalog.load(extra.root)
    assert "find_words" in [entry.manifest.name for entry in catalog.published()]
    taken = catalog.validate_arguments("find_words", {"words": ["a"]})
    assert taken.model_dump() == {"words": ["a"]}


BAD = MANIFEST.format(name="bad_tool")
BAD_MANIFESTS = {
    "missing field": (BAD.replace("title: A test tool\n", ""), "title: is missing"),
    "unknown field": (BAD + "retries: 3\n", "retries: there is no such field"),
    "unknown word": (
        BAD.replace("risk: low", "risk: tiny"),
        "risk: must be 'low', 'medium', 'high' or 'critical'",
    ),
    "wrong type": (
        BAD.replace("writes: false", "writes: 'no'"),
        "writes: input should be a valid boolean",
    ),
    "no such version": (BAD.replace("1.0.0", "1.0"), "version: must match "),
    "repeated key": (BAD + "risk: high\n", "risk is given twice"),
    "not YAML": ("name: [", ": line "),
    "empty": ("", "must be a mapping of names"),
    "code object": ("!!python/object/apply:os.getcwd []", "could not determine a constructor"),
    "a typo deep down": (BAD.replace("people: 0", "people: many"), "blast_radius.people: "),
    "half a list": (BAD.replace("roles: []", "roles: [finance, Leads]"), "roles.1: must match "),
    "another name": (MANIFEST.format(name="other_tool"), "name: is other_tool, the folder is bad_tool"),
    "contradiction": (
        BAD.replace("writes: false", "writes: true").replace("[read_public]", "[write_internal]"),
        "writes: is true, which the tool's class contradicts",
    ),
    "a read that writes": (
        BAD.replace("[read_public]", "[read_public, money_movement]"),
        "capability_classes: it only reads",
    ),
    "a write that reads": (
        BAD.replace("writes: false", "writes: true"),
        "capability_classes: none of them says what it writes",
    ),
    "a read with consequences": (
        BAD.replace("side_effects: []", "side_effects: [it writes a letter]"),
        "side_effects: a tool that only reads has none",
    ),
    "a credential that its classes hide": (
        BAD.replace("credential: null", "credential: orders"),
        "credential: a tool of the class credential_use has one",
    ),
    "a credential of elsewhere": (
        BAD.replace("credential: null", "credential: payments").replace("read_public", "credential_use"),
        "credential: is not in egress",
    ),
    "undo of the irreversible": (
        BAD.replace("reversibility: reversible", "reversibility: irreversible\nundo_tool: bad_tool"),
        "undo_tool: one that only reads or is irreversible has none",
    ),
    "a phase that nobody begins": (
        BAD + "phase: {after: [no_such_tool], until: [bad_tool]}\n",
        "phase.after: there is no tool no_such_tool",
    ),
    "a phase without a beginning": (BAD + "phase: {after: []}\n", "phase.after: "),
    "a trace of nothing": (BAD.replace("trace: []", "trace: [word]"), "trace: the tool has no argument word"),
    "a trace of free text": (BAD.replace("trace: []", "trace: [words]"), "trace: words is neither an enum,"),
}


@pytest.mark.parametrize("case", BAD_MANIFESTS)
def test_a_bad_manifest_is_named_with_file_and_field(extra: Folder, case: str) -> None:
    manifest, problem = BAD_MANIFESTS[case]
    extra.add("bad_tool", manifest)
    (line,) = problems(extra)
    assert line.startswith("EXTRA/bad_tool/manifest.yaml: ")
    assert problem in line


@pytest.mark.parametrize("field", DECLARED)
def test_what_is_not_declared_is_taken_for_the_worst(field: str, tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    said = MANIFEST.format(name="bare_tool").splitlines(keepends=True)
    file.write_text("".join(said))
    assert load_manifest(file).effective_risk == "low"
    file.write_text("".join(line for line in said if not line.startswith(f"{field}:")))
    bare = load_manifest(file)
    assert (bare.missing, bare.effective_risk) == ((field,), "critical")


def test_what_is_not_declared_fails_closed(extra: Folder) -> None:
    said = MANIFEST.format(name="bare_tool").splitlines(keepends=True)
    names = tuple(f"{name}:" for name in DECLARED)
    extra.add("bare_tool", "".join(line for line in said if not line.startswith(names)))
    entry = Catalog.load(extra.root).get("bare_tool")
    assert entry is not None
    bare = entry.manifest
    assert (bare.reversibility, bare.systems, bare.repeatable, bare.idempotency) == (
        "irreversible",
        ("orders",),
        False,
        "none",
    )
    assert not entry.offered_to(["bare_tool"])


def test_a_write_says_how_it_is_taken_back_and_what_it_does(tmp_path: Path) -> None:
    file = tmp_path / "manifest.yaml"
    shutil.copy(BUILT_IN / "cancel_order" / "manifest.yaml", file)
    text = file.read_text()
    file.write_text(text.replace("undo_tool: reinstate_order\n", ""))
    assert load_manifest(file).missing == ("undo_tool",)
    file.write_text(text.replace("side_effects:\n  - the store does not ship the order\n", "side_effects: []\n"))
    assert load_manifest(file).missing == ("side_effects",)


def test_the_built_in_tools_say_everything(catalog: Catalog) -> None:
    assert [entry.manifest.name for entry in catalog.all() if entry.manifest.missing] == []


def test_a_list_says_when_it_is_cut(extra: Folder) -> None:
    extra.add("bad_tool", code=CODE.format(name="bad_tool").replace("    truncated: bool\n", ""))
    (line,) = problems(extra)
    assert line.endswith("result_max_items: a result with a list needs the fields count and truncated")


BAD_CODE = {
    "no tool": ("X = 1\n", "EXTRA/bad_tool/tool.py: TOOL must be a ReadTool or a WriteTool"),
    "import of nothing": (
        "import no_such_module\n",
        "EXTRA/bad_tool/tool.py: cannot be imported: ModuleNotFoundError: ",
    ),
    "no Python": ("def (\n", "EXTRA/bad_tool/tool.py: cannot be imported: SyntaxError: "),
}


@pytest.mark.parametrize("case", BAD_CODE)
def test_bad_code_is_named_with_its_file(extra: Folder, case: str) -> None:
    code, problem = BAD_CODE[case]
    extra.add("bad_tool", code=code)
    (line,) = problems(extra)
    assert line.startswith(problem)


def test_a_name_can_be_taken_once_and_all_problems_are_told_together(extra: Folder, tmp_path: Path) -> None:
    extra.add("issue_refund")
    extra.add("bad_tool", "")
    lines = problems(extra)
    assert len(lines) == 2
    assert lines[0].startswith("EXTRA/issue_refund/manifest.yaml: there is already a tool issue_refund in ")


def test_a_path_that_is_no_folder_is_a_problem(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="is not a folder"):
        Catalog.load(tmp_path / "nowhere")
