"""An `mcp.yaml` that does not hold together is named with file and field, before anything is called."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import tools
from tests.shop import FILES, NO_PIN
from tools.catalog import Catalog, CatalogError

READ, WRITE = "shop_order", "refund_shop_order"
PIN = f'"{NO_PIN}"'


@pytest.fixture
def extra(tmp_path: Path) -> Iterator[Path]:
    before, path = set(sys.modules), list(tools.__path__)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]
    tools.__path__[:] = path


def problems(
    extra: Path, name: str, *changes: tuple[str, str], manifest: tuple[tuple[str, str], ...] = ()
) -> list[str]:
    """What is said of a document of the page with these changes."""
    folder = extra / name
    folder.mkdir(exist_ok=True)
    for file, replaced in (("mcp.yaml", changes), ("manifest.yaml", manifest)):
        text = FILES[f"{name}/{file}"]
        for old, new in replaced:
            assert old in text
            text = text.replace(old, new, 1)
        (folder / file).write_text(text)
    try:
        Catalog.load(extra)
    except CatalogError as error:
        return [each.removeprefix(f"{folder}/mcp.yaml: ") for each in error.problems]
    return []


def test_both_kinds_hold_together(extra: Path) -> None:
    assert problems(extra, READ) == []
    assert problems(extra, WRITE) == []
    entry = Catalog.load(extra).get(WRITE)
    assert entry is not None
    assert (entry.upstream, set(entry.pins)) == ("shop", {"get_order", "refund_order", "find_refunds"})


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        ("upstream: shop", "upstream: bank", "upstream: is bank, which the manifest's egress does not name"),
        ("belongs_to: customer_id #", "#", "read: reads anybody's; send $run.customer_id"),
        (f"pin: {PIN}", 'pin: "abc"', "read.pin: must match ^[0-9a-f]{64}$"),
        (f"  pin: {PIN}\n", "", "read.pin: is missing"),
        ("tool: get_order", "tool: get order", "read.tool: must match"),
        ("tool: get_order", "tool: get_order\n  send: { id: $args.order }", "read.send.id: args.order is not known"),
        ("tool: get_order", "tool: get_order\n  meta: { a: $facts.x }", "read.meta.a: facts.x is not known"),
        (
            "left_cents: { type: integer, minimum: 0 }",
            "note: { maxLength: 80 }",
            "result.note: is free text; an upstream's belongs into `texts`",
        ),
        (
            "left_cents: { type: integer, minimum: 0 }",
            "notes: { type: array, maxItems: 5, items: { maxLength: 80 } }",
            "result.notes.items: is free text",
        ),
        ("paid_cents: {", "untrusted: {", "result: untrusted, cut and left_out are there by themselves"),
        ("text: note", "text: content, ref: note", "texts.0: the texts of an answer have no ref and no title"),
        ("done: order", "write: { tool: x }\ndone: order", "write.pin: is missing"),
        ("done: order", "title: Order\ndone: order", "title: is of a tool that writes"),
        ("done: order", "anything: 1\ndone: order", "anything: there is no such field"),
    ],
)
def test_a_read_that_does_not_hold_together(extra: Path, old: str, new: str, problem: str) -> None:
    assert any(each.startswith(problem) for each in problems(extra, READ, (old, new)))


def test_a_read_of_an_upstream_is_one_of_untrusted_words(extra: Path) -> None:
    found = problems(extra, READ, manifest=((", read_untrusted", ""),))
    assert found == ["read: is of an upstream; the manifest's capability_classes need read_untrusted"]


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        (
            "reference: $operation_id }\n\nconfirmed",
            "reference: op }\n\nconfirmed",
            "inspect: finds nothing; write sends no",
        ),
        (
            ", reference: $operation_id }\n\ninspect",
            " }\n\ninspect",
            "confirmed.equal: has no $operation_id; a look-up",
        ),
        (
            "amount_cents: $args.amount_cents, reference: $operation_id }\n\ninspect",
            "reference: $operation_id }\n\ninspect",
            "confirmed.equal: args.amount_cents is sent and not compared",
        ),
        ("tool: find_refunds", "tool: refund_order", "inspect.tool: is the one that writes"),
        (
            "send: { reference: $operation_id }",
            "send: { reference: $idempotency_key }",
            "inspect.send.reference: idempo",
        ),
        ("facts: #", "undone_late: true\nfacts: #", ""),
        ("matters: [order.order_id]", "matters: [facts_at]", "matters: facts_at changes by itself"),
        ("  order:\n", "  run:\n", "facts.run: is there by itself"),
        (
            "title: Refund {args.amount_cents:money}",
            "title: Refund {facts.order.note}",
            "title: facts.order.note is not",
        ),
        ("inspect: #", "texts: [{ text: content }]\ninspect: #", "texts: are of a tool that reads"),
        ("inspect: #", "outcomes: [{ error: gone, is: REMOTE_REFUSED }]\ninspect: #", "error: is missing"),
        ("inspect: #", "outcomes: [{ error: a, rpc: 1, is: REMOTE_REFUSED }]\ninspect: #", "outcomes.0: error and rpc"),
        ("inspect: #", "outcomes: [{ is: confirmed }]\ninspect: #", "outcomes.0.is"),
        (
            "inspect: #",
            "outcomes: [{ is: REMOTE_REFUSED }, { is: unknown }]\ninspect: #",
            "outcomes: None is listed twice",
        ),
        ("tool: refund_order", "key_hours: 24\n  tool: refund_order", "write.key_hours: belongs to the manifest's"),
    ],
)
def test_a_write_that_does_not_hold_together(extra: Path, old: str, new: str, problem: str) -> None:
    found = problems(extra, WRITE, (old, new))
    assert any(each.startswith(problem) for each in found) if problem else found == []


def test_without_a_look_up_it_loads_and_cannot_be_watched(extra: Path) -> None:
    text = FILES[f"{WRITE}/mcp.yaml"]
    begin, end = text.index("inspect: #"), text.index("result:\n")
    assert problems(extra, WRITE, (text[begin:end], "")) == []
    late = problems(extra, WRITE, (text[begin:end], "undone_late: true\n"))
    assert late == ["undone_late: nothing can be looked at again without inspect"]


def test_a_key_that_is_promised_is_sent(extra: Path) -> None:
    changes = [
        ("tool: refund_order", "key_hours: 24\n  tool: refund_order"),
        ("reference: $operation_id }\n\nconfirmed", "reference: op }\n\nconfirmed"),
    ]
    found = problems(extra, WRITE, *changes, manifest=(("idempotency: none", "idempotency: key"),))
    assert "write: has no $idempotency_key in send or meta, which key_hours speaks of" in found


def test_one_tool_has_one_pin(extra: Path) -> None:
    other = ("pin: " + PIN + "\n  send: { reference", 'pin: "' + "1" * 64 + '"\n  send: { reference')
    found = problems(extra, WRITE, ("tool: find_refunds", "tool: get_order"), other)
    assert found == ["facts.order.pin: is another one than that of get_order elsewhere in the file"]


def test_a_tool_is_one_of_both(extra: Path) -> None:
    problems(extra, READ)
    (extra / READ / "tool.py").write_text("")
    with pytest.raises(CatalogError, match="a tool is one of both"):
        Catalog.load(extra)
