"""An `http.yaml` that does not hold together is named with file and field, before anything is called."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from tests.docs.how_to import FILES
from tools.catalog import Catalog, CatalogError

MANIFEST, WRITE = FILES["send_money/manifest.yaml"], FILES["send_money/http.yaml"]
READ_MANIFEST = (
    FILES["track_order/manifest.yaml"]
    .replace("track_order", "list_recipients")
    .replace("egress: [orders]", "egress: [bank]")
    .replace("credential: orders", "credential: bank")
)
READ = """\
system: bank
arguments:
  limit: { type: integer, minimum: 1, maximum: 20 }
read:
  get: /customers/{run.customer_id}/recipients
  query: { limit: $args.limit }
  total: total
result:
  recipients:
    type: array
    maxItems: 20
    items: { type: object, properties: { recipient_id: { maxLength: 40 }, name: { maxLength: 80, optional: true } } }
done: "{result.count} recipients of this customer"
"""


@pytest.fixture
def extra(tmp_path: Path) -> Iterator[Path]:
    before, path = set(sys.modules), list(tools.__path__)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    tools.__path__[:] = path


def problems(extra: Path, name: str, manifest: str, document: str) -> list[str]:
    folder = extra / name
    folder.mkdir(exist_ok=True)
    (folder / "manifest.yaml").write_text(manifest)
    (folder / "http.yaml").write_text(document)
    try:
        Catalog.load(extra)
    except CatalogError as error:
        return [each.removeprefix(f"{folder}/http.yaml: ") for each in error.problems]
    return []


def test_both_kinds_hold_together(extra: Path) -> None:
    assert problems(extra, "send_money", MANIFEST, WRITE) == []
    assert problems(extra, "list_recipients", READ_MANIFEST, READ) == []


RECIPIENT = '{ pattern: "^rcp_[0-9a-f]{12}$", description: "The recipient\'s id" }'
BAD_WRITES = {
    "a typo": ("execution_date: $args.date", "execution_date: $args.dat", "write.body.execution_date: args.dat is not"),
    "an unknown field": ("  method: POST", "  verb: POST\n  method: POST", "write.verb: there is no such field"),
    "another method": ("method: POST", "method: DELETE", "write.method: must be 'POST' or 'PUT'"),
    "a path that leaves": ("path: /payments", "path: /../payments", "write.path: must match"),
    "a query in a path": ("path: /payments", "path: /payments?x=1", "write.path: must match"),
    "no operation id": ("{ counterseal_operation: $operation_id }", "{ a: b }", "write.body: has no $operation_id"),
    "an operation that is not compared": (
        "    metadata.counterseal_operation: $operation_id\n",
        "",
        "confirmed.equal: has no $operation_id",
    ),
    "an amount that is not compared": (
        "    amount: $args.amount_cents\n    currency: $args.currency\n\ninspect",
        "    currency: $args.currency\n\ninspect",
        "confirmed.equal: args.amount_cents is sent and not compared",
    ),
    "an optional comparison": (
        "    currency: $args.currency\n\ninspect",
        "    currency: $args.currency\n    reference: $args.reference\n\ninspect",
        "confirmed.equal.reference: args.reference may be missing",
    ),
    "a 500 that says nothing was done": (
        "{ status: 422, error: invalid_amount, is",
        "{ status: 500, error: invalid_amount, is",
        "outcomes.4: only a 4xx says that nothing was done",
    ),
    "a status alone": (
        "{ status: 422, error: invalid_amount, is",
        "{ status: 422, is",
        "outcomes.4: error: is needed",
    ),
    "a refusal of ours": ("is: AUTH_FAILED", "is: USER_DENIED", "outcomes.1: is: one of confirmed, unknown"),
    "a confirmation by error": (
        "{ status: 201, is: confirmed }",
        "{ status: 404, is: confirmed }",
        "outcomes.0: only",
    ),
    "nothing confirms": ("  - { status: 201, is: confirmed }\n", "", "outcomes: none of them is a confirmation"),
    "listed twice": (
        "  - { status: 201, is: confirmed }\n",
        "  - { status: 201, is: confirmed }\n" * 2,
        "outcomes: 201 is listed twice",
    ),
    "no place of the code": ("error: error.code # where", "# where", "error: is missing"),
    "a look-alike class": ('[0-9a-f]{12}$", d', '\\\\d{12}$", d', "arguments.recipient.pattern: \\d, \\w, \\s and"),
    "half a pattern": (
        '"^rcp_[0-9a-f]{12}$", d',
        '"rcp_[0-9a-f]{12}", d',
        "arguments.recipient.pattern: a pattern",
    ),
    "free text without an end": ("{ maxLength: 140, optional", "{ optional", "arguments.reference: a string needs"),
    "a number without an end": (
        "minimum: 1, maximum: 500000",
        "minimum: 1",
        "arguments.amount_cents: an",
    ),
    "a length of a number": (
        "minimum: 1, max",
        "maxLength: 2, max",
        "arguments.amount_cents: maxLength is",
    ),
    "an argument that the run binds": (
        "  reference: {",
        "  customer_id: {",
        "arguments.customer_id: is bound",
    ),
    "a key of its own": ("  reference: {", "  idempotency_key: {", "arguments.idempotency_key: is there by itself"),
    "an argument called facts": ("  reference: {", "  facts: {", "arguments.facts: is there by itself"),
    "anybody's record": ("    belongs_to: customer_id\n", "", "facts.recipient: reads anybody's"),
    "a fact that changes by itself": (
        "matters: [recipient.recipient_id",
        "matters: [recipient.age_minutes",
        "matters: recipient.age_minutes changes by itself",
    ),
    "no such fact": (
        "matters: [recipient.recipient_id",
        "matters: [recipient.id",
        "matters: facts.recipient.id",
    ),
    "free text in a title": ("on {args.date}\n", "{args.reference}\n", "title: args.reference is free text"),
    "no such name in a sentence": ("done: sent {args", "done: sent {arg", "done: arg.amount_cents is not known"),
    "braces": ("done: sent {", "done: sent {{", "done: braces hold a name"),
    "nothing presumed": (", presumed: sent", "", "result.state: presumed is missing"),
    "a claim on nothing": (
        "$facts.account.balance_cents",
        "$facts.account.balance",
        "claim.available: facts.acc",
    ),
    "a claim on text": ("$facts.account.balance_cents", "$facts.account.account_id", "claim.available: facts.account"),
    "how long a key is known": ("  key_hours: 24", "  # key_hours: 24", "write.key_hours: belongs to the manifest's"),
    "another system": ("system: bank", "system: store", "system: is store"),
    "a part that is missing": ("matters: [", "title_: [", "title_: there is no such field"),
    "a list in what a write answers": (
        "result:\n",
        "result:\n  list: { type: array, maxItems: 2, items: { type: integer }, presumed: x }\n",
        "result.list: what a write answers has no list",
    ),
}


@pytest.mark.parametrize("case", BAD_WRITES)
def test_a_bad_write_is_named_with_its_field(extra: Path, case: str) -> None:
    before, after, problem = BAD_WRITES[case]
    assert before in WRITE
    found = problems(extra, "send_money", MANIFEST, WRITE.replace(before, after, 1))
    assert any(each.startswith(problem) for each in found), found


BAD_READS = {
    "nothing to read": ("read:\n", "facts:\n", "facts.get: "),
    "a title": ("done:", "title: x\ndone:", "title: is of a tool that writes"),
    "a count of its own": ("result:\n", "result:\n  count: { type: integer }\n", "result.count: is there by itself"),
    "two lists": (
        "result:\n",
        "result:\n  more: { type: array, maxItems: 2, items: { type: boolean } }\n",
        "result: has several lists: more, recipients",
    ),
    "anybody's": ("/customers/{run.customer_id}/recipients", "/recipients", "read: reads anybody's"),
    "another's words": (
        "{ limit: $args.limit }",
        "{ limit: $facts.limit }",
        "read.query.limit: facts.limit",
    ),
}


@pytest.mark.parametrize("case", BAD_READS)
def test_a_bad_read_is_named_with_its_field(extra: Path, case: str) -> None:
    before, after, problem = BAD_READS[case]
    assert before in READ
    found = problems(extra, "list_recipients", READ_MANIFEST, READ.replace(before, after, 1))
    assert any(each.startswith(problem) for each in found), found


def test_a_tool_is_code_or_a_document(extra: Path) -> None:
    problems(extra, "send_money", MANIFEST, WRITE)
    (extra / "send_money" / "tool.py").write_text("TOOL = None\n")
    assert problems(extra, "send_money", MANIFEST, WRITE) == ["there is a tool.py beside it; a tool is one of both"]


@pytest.mark.parametrize("name", ["arguments", "http"])
def test_no_tool_takes_the_name_of_a_part_of_the_service(extra: Path, name: str) -> None:
    (found,) = problems(extra, name, MANIFEST.replace("send_money", name), WRITE)
    assert found.endswith(f"{name} is what a part of the service is called")
