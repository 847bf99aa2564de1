"""What a tool of an upstream makes of an answer: nothing is believed that is not written down."""

from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

import pytest

import tools
from activities.patience import Patience, verdict_on
from gateways.http import NotAnswered
from gateways.protocols import Systems
from gateways.upstreams import Called, Changed, Definition
from schemas.calls import Binding
from schemas.codes import Code
from schemas.effects import Absent, Confirmed, Effect, Exchange, Failed, Unknown
from tests.shop import FILES
from tools.catalog import Catalog
from tools.mcp.document import Texts
from tools.mcp.words import words_of
from tools.mcp.write import McpWrite
from tools.protocol import Refusal

BINDING = Binding(tenant="t", run_id="run_1", agent_id="bot", actor_id="user", customer_id="cus_ada")
ORDER = {"order_id": "ord_1", "customer_id": "cus_ada", "left_cents": 9_000}
REFUND = {"refund_id": "ref_1", "order_id": "ord_1", "amount_cents": 4_999, "reference": "op_1"}
OUTCOMES = """\
error: error.code
outcomes:
  - { error: spent, is: INVALID_STATE, because: nothing is left }
  - { error: closed, is: REMOTE_REFUSED }
  - { error: busy, is: RATE_LIMITED }
  - { error: odd, is: unknown }
  - { rpc: -32602, is: REMOTE_REFUSED }
"""


def exchange(**changes: Any) -> Exchange:
    return Exchange(
        system="shop", method="POST", path_template="tools/call", reached="response_received", elapsed_ms=1
    ).model_copy(update=changes)


class Shop:
    """Answers by tool, and remembers what it was asked."""

    system = "shop"

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, Any], dict[str, Any] | None, bool]] = []
        self.changed: dict[str, str] = {}

    async def changes(self, pins: Any, at_most_old: float = 0) -> Any:
        return self.changed

    async def call(self, tool: str, pin: str, arguments: Any, *, meta: Any = None, writes: bool = False) -> Any:
        self.asked.append((tool, dict(arguments), meta, writes))
        return self.answers[tool]

    @property
    def systems(self) -> Systems:
        nothing: Any = None
        return Systems(nothing, nothing, nothing, {}, {"shop": cast(Any, self)})


def answer(content: Any, **more: Any) -> Called:
    return Called(content, (), exchange(), **more)


@pytest.fixture(params=[""])
def refunds(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[McpWrite]:
    path = list(tools.__path__)
    folder = tmp_path / "refund_shop_order"
    folder.mkdir()
    text = FILES["refund_shop_order/mcp.yaml"].replace(
        "reference: $operation_id }\n\nconfirmed",
        (
            "reference: $operation_id, customer: $run.customer_id, note: from the gate }\n"
            "  meta: { example.com/key: $idempotency_key }\n\nconfirmed"
        ),
    )
    (folder / "mcp.yaml").write_text(OUTCOMES + text + request.param)
    (folder / "manifest.yaml").write_text(FILES["refund_shop_order/manifest.yaml"])
    entry = Catalog.load(tmp_path).get("refund_shop_order")
    assert entry is not None
    assert isinstance(entry.tool, McpWrite)
    yield entry.tool
    tools.__path__[:] = path


def effect(tool: McpWrite, **facts: Any) -> Effect:
    return Effect(
        request_id="act_1",
        tool=tool.name,
        operation_id="op_1",
        gateway_key="key_1",
        target={
            "order_id": "ord_1",
            "amount_cents": 4_999,
            "currency": "USD",
            "facts": {"order": {"order_id": "ord_1"}, "run": {"customer_id": "cus_ada"}},
        },
        intended_at=datetime.now(UTC),
    )


def error(code: str | None) -> Called:
    return answer({"error": {"code": code}}, is_error=True)


ANSWERS: dict[str, tuple[Any, Any]] = {
    "ours": (answer(REFUND), Confirmed),
    "more than we know": (answer(REFUND | {"more": [1]}), Confirmed),
    "another amount": (answer(REFUND | {"amount_cents": 4_998}), "mismatched"),
    "an amount as text": (answer(REFUND | {"amount_cents": "4999"}), "mismatched"),
    "another operation": (answer(REFUND | {"reference": "op_2"}), "mismatched_operation"),
    "no content": (answer(None), "mismatched"),
    "an id of nothing plain": (answer(REFUND | {"refund_id": "../1"}), "unreadable"),
    "an error that is known": (error("spent"), Code.INVALID_STATE),
    "a refusal": (error("closed"), Code.REMOTE_REFUSED),
    "too many": (error("busy"), Code.RATE_LIMITED),
    "an error that may be anything": (error("odd"), "error"),
    "an error that nobody knows": (error("unheard_of"), "error"),
    "an error without a code": (error(None), "error"),
    "a confirmation that is an error": (answer(REFUND, is_error=True), "error"),
    "a protocol error that is known": (answer(None, rpc=-32602), Code.REMOTE_REFUSED),
    "a protocol error": (answer(None, rpc=-32603), "protocol_error"),
    "not who we say": (
        NotAnswered(exchange(upstream_status=401, problem="auth_failed", reached="response_received")),
        Code.AUTH_FAILED,
    ),
    "not allowed": (NotAnswered(exchange(upstream_status=403, problem="forbidden")), Code.REMOTE_FORBIDDEN),
    "limited": (NotAnswered(exchange(upstream_status=429, problem="rate_limited")), Code.RATE_LIMITED),
    "down": (NotAnswered(exchange(upstream_status=503, problem="http_503")), "http_503"),
    "lost": (NotAnswered(exchange(reached="bytes_sent", problem="timeout")), "timeout"),
    "nothing sent": (NotAnswered(exchange(reached="nothing_sent", problem="timeout")), Code.NETWORK_UNREACHABLE),
    "locked": (NotAnswered(exchange(reached="nothing_sent", problem="vault_locked")), Code.VAULT_LOCKED),
    "another definition": (Changed("shop", "refund_order", "changed"), Code.CAPABILITY_DISABLED),
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_what_an_answer_means(refunds: McpWrite, case: str) -> None:
    given, expected = ANSWERS[case]
    shop = Shop(refund_order=given)
    outcome = await refunds.execute(effect(refunds), shop.systems)
    if expected is Confirmed:
        assert isinstance(outcome, Confirmed)
        assert (outcome.remote_id, outcome.result) == ("ref_1", {"refund_id": "ref_1", "amount_cents": 4_999})
    elif isinstance(expected, Code):
        assert isinstance(outcome, Failed)
        assert outcome.code is expected
    else:
        assert (outcome.kind, outcome.exchange.problem) == ("unknown", expected)
    ((tool, arguments, meta, writes),) = shop.asked
    assert (tool, meta, writes) == ("refund_order", {"example.com/key": "key_1"}, True)
    assert arguments == {
        "order_id": "ord_1",
        "amount_cents": 4_999,
        "reference": "op_1",
        "customer": "cus_ada",
        "note": "from the gate",
    }


LOOKS: dict[str, tuple[Any, str, str | None]] = {
    "there": (answer({"refunds": [REFUND]}), "confirmed", None),
    "not there": (answer({"refunds": [REFUND | {"reference": "op_2"}]}), "absent", None),
    "twice": (answer({"refunds": [REFUND, REFUND]}), "unknown", "found_twice"),
    "no list": (answer({"refunds": None}), "unknown", "unreadable"),
    "an error": (error("closed"), "unknown", "refused"),
    "no answer": (NotAnswered(exchange(problem="timeout")), "unknown", "timeout"),
    "another definition": (Changed("shop", "find_refunds", "gone"), "unknown", "definition_gone"),
}


@pytest.mark.parametrize("case", LOOKS)
async def test_what_a_look_up_says(refunds: McpWrite, case: str) -> None:
    given, kind, problem = LOOKS[case]
    shop = Shop(find_refunds=given)
    found = await refunds.inspect(effect(refunds), shop.systems)
    assert (found.kind, found.exchange.problem) == (kind, problem)
    assert shop.asked == [("find_refunds", {"reference": "op_1"}, {}, False)]


async def test_where_nothing_can_be_looked_up_a_person_is_asked_at_once(refunds: McpWrite) -> None:
    refunds.document = refunds.document.model_copy(update={"inspect": None})
    given = effect(refunds)
    found = await refunds.inspect(given, Shop().systems)
    assert isinstance(found, Unknown)
    verdict = verdict_on(found, given, Patience(), may_resend_until=None, now=given.intended_at)
    assert verdict == "unreadable"
    later = verdict_on(Absent(exchange=exchange()), given, Patience(), may_resend_until=None, now=given.intended_at)
    assert later == "wait"


async def test_facts_are_the_customers_own_and_of_what_was_reviewed(refunds: McpWrite) -> None:
    arguments = refunds.arguments_model.model_validate(
        {"order_id": "ord_1", "amount_cents": 1, "currency": "USD", "idempotency_key": "0" * 32}
    )
    shop = Shop(get_order=answer(ORDER))
    facts: Any = await refunds.read_facts(arguments, BINDING, shop.systems)
    assert (facts.order.left_cents, facts.run.customer_id) == (9_000, "cus_ada")
    theirs = await refunds.read_facts(arguments, BINDING, Shop(get_order=answer(ORDER | {"customer_id": "x"})).systems)
    none = await refunds.read_facts(arguments, BINDING, Shop(get_order=error(None)).systems)
    assert isinstance(theirs, Refusal)
    assert theirs == none
    for change in (Changed("shop", "get_order", "changed"), None):
        quarantined = Shop(get_order=change or answer(ORDER))
        quarantined.changed = {} if change else {"refund_order": "gone"}
        refused = await refunds.read_facts(arguments, BINDING, quarantined.systems)
        assert isinstance(refused, Refusal)
        assert refused.code is Code.CAPABILITY_DISABLED


def test_words_come_by_entry_with_what_they_belong_to() -> None:
    content: Any = {
        "tickets": [{"id": 7, "subject": "a\u200bb", "body": "one"}, {"id": 8, "body": 5}, "odd"],
        "note": "n",
    }
    given = Called(content, ("the texts\ud800",), exchange(), left_out={"image": 2, "made_up": 1})
    wanted = [
        Texts.model_validate({"each": "tickets", "ref": "id", "title": "subject", "text": "body", "maxLength": 2}),
        Texts.model_validate({"text": "note"}),
        Texts.model_validate({"text": "content"}),
    ]
    found: Any = words_of(given, wanted, "shop", "search", 10_000)
    assert [(each["ref"], each.get("title"), each["text"]) for each in found["untrusted"]["texts"]] == [
        ("7", "ab", "on"),
        ("search", None, "n"),
        ("search", None, "the texts?"),
    ]
    assert (found["cut"], found["left_out"]) == (True, {"image": 2})
    small: Any = words_of(given, wanted, "shop", "search", 60)
    assert len(small["untrusted"]["texts"]) < 3
    assert small["cut"] is True
    assert words_of(answer({}), wanted, "shop", "search", 100) == {}


def test_what_advertises_nothing_more_than_it_has() -> None:
    assert Definition("n", None, None, {}, None, {}).as_json() == {"name": "n", "inputSchema": {}}
