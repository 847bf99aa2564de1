"""What the default policy says of a refund, on both sides of every border."""

import pytest

from policy.decide import decide
from policy.model import Policy, Usage
from schemas.codes import Code
from schemas.replies import reply_for
from tests.policy.refunds import MANIFEST, refund


def test_an_ordinary_refund_runs_and_a_person_is_told(default: Policy) -> None:
    decision = decide(default, refund())
    assert (decision.verdict, decision.rule, decision.policy_version) == ("notify", "otherwise", default.version)
    assert (decision.code, decision.explanation, decision.rules) == (None, None, ())


@pytest.mark.parametrize(
    "changes",
    [
        {"facts.order.status": "shipped"},
        {"facts.order.status": "delivered"},
        {"facts.order.age_minutes": 1440},
        {"args.amount_cents": 20_000},
        {"totals.customer_24h": 20_000 - 4999},
        {"usage.refunds_per_run": 4},
        {"usage.refunds_per_hour": 99},
    ],
)
def test_inside_the_borders_it_runs(default: Policy, changes: dict[str, object]) -> None:
    assert decide(default, refund(changes)).verdict == "notify"


@pytest.mark.parametrize(
    ("changes", "rule", "because"),
    [
        ({"facts.order.status": "open"}, "order_state", "it is open"),
        ({"facts.order.status": "cancelled"}, "order_state", "it is cancelled"),
        ({"facts.order.status": "misplaced"}, "order_state", "it is misplaced"),
        ({"facts.order.age_minutes": 1439}, "too_new", "it was placed less than 1440 minutes ago"),
        ({"facts.order.age_minutes": -1}, "too_new", "it was placed less than 1440 minutes ago"),
        ({"facts.order.disputed": True}, "disputed", "it is disputed, and the dispute decides about the money"),
        ({"facts.payment.disputed": True}, "disputed", "it is disputed, and the dispute decides about the money"),
    ],
)
def test_not_refundable(default: Policy, changes: dict[str, object], rule: str, because: str) -> None:
    decision = decide(default, refund(changes))
    assert (decision.verdict, decision.code, decision.rule) == ("refuse", Code.NOT_REFUNDABLE, rule)
    assert decision.because == because
    reply = reply_for(Code.NOT_REFUNDABLE, "act_1", decision.explanation)
    assert reply.message == f"Order ord_8f2b91a04c7d cannot be refunded: {because}. Do not send it again."


@pytest.mark.parametrize(
    ("status", "use_tool", "action"),
    [("open", "cancel_order", "use_other_tool"), ("cancelled", None, "stop_and_report")],
)
def test_an_open_order_is_to_be_cancelled_instead(
    default: Policy, status: str, use_tool: str | None, action: str
) -> None:
    decision = decide(default, refund({"facts.order.status": status}))
    reply = reply_for(Code.NOT_REFUNDABLE, "act_1", decision.explanation)
    assert (reply.use_tool, reply.action) == (use_tool, action)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"args.amount_cents": 20_001}, ("over_threshold", "customer_24h")),
        ({"args.amount_cents": 40_000}, ("over_threshold", "customer_24h")),
        ({"args.amount_cents": 40_001}, ("over_threshold", "four_eyes", "customer_24h")),
        ({"args.amount_cents": 45_001}, ("over_threshold", "four_eyes", "reauthenticate", "customer_24h")),
        ({"facts.customer.fraud_flag": True}, ("fraud_flag",)),
        ({"totals.customer_24h": 20_001 - 4999}, ("customer_24h",)),
        ({"totals.customer_24h": 20_000, "args.amount_cents": 100}, ("customer_24h",)),
        ({"totals.same_10m": 1}, ("likely_duplicate",)),
        (
            {"args.amount_cents": 20_001, "facts.customer.fraud_flag": True},
            ("over_threshold", "fraud_flag", "customer_24h"),
        ),
    ],
)
def test_held_for_finance(default: Policy, changes: dict[str, object], rules: tuple[str, ...]) -> None:
    decision = decide(default, refund(changes))
    assert (decision.verdict, decision.rule, decision.rules) == ("hold", rules[0], rules)
    assert (decision.approvers, decision.deadline_seconds) == ("finance", 86_400)
    assert (decision.people, decision.escalates_to) == (2 if "four_eyes" in rules else 1, "leads")
    assert (decision.code, decision.explanation) == (None, None)


def test_a_hold_says_all_its_reasons(default: Policy) -> None:
    decision = decide(default, refund({"args.amount_cents": 20_001, "facts.customer.fraud_flag": True}))
    assert decision.because == (
        "the amount is over the threshold of 200.00 USD; the customer is flagged for fraud; with this one, the "
        "customer's refunds of the last 24 hours are over the threshold of 200.00 USD"
    )


def test_the_sixth_refund_of_a_run_ends_it(default: Policy) -> None:
    decision = decide(default, refund({"usage.refunds_per_run": 5, "usage.refunds_per_hour": 100}))
    assert (decision.verdict, decision.code, decision.rule) == ("refuse", Code.RATE_LIMITED, "refunds_per_run")
    reply = reply_for(Code.RATE_LIMITED, "act_1", decision.explanation)
    assert reply.message == "A limit was reached: 5 refunds a run. End your turn and hand over to a person."
    assert (reply.action, reply.retry_after_seconds, reply.attempts_remaining) == ("stop_and_report", None, 0)


@pytest.mark.parametrize(("oldest_leaves_in", "seconds"), [(1_234, 1_234), (0, 1), (None, 3_600)])
def test_the_hundred_and_first_of_an_hour_may_come_back(
    default: Policy, oldest_leaves_in: int | None, seconds: int
) -> None:
    decision = decide(default, refund({"usage.refunds_per_hour": Usage(100, oldest_leaves_in)}))
    assert (decision.verdict, decision.code, decision.rule) == ("refuse", Code.RATE_LIMITED, "refunds_per_hour")
    reply = reply_for(Code.RATE_LIMITED, "act_1", decision.explanation)
    assert reply.message == (
        "A limit was reached: 100 refunds an hour. Try a new call with a new idempotency_key after "
        f"{seconds} seconds, or hand over to a person."
    )
    assert (reply.action, reply.retry_after_seconds, reply.attempts_remaining) == ("retry_after_delay", seconds, 0)


@pytest.mark.parametrize(
    ("tool", "allowed"),
    [("cancel_order", "open"), ("change_shipping_address", "open"), ("reinstate_order", "cancelled")],
)
@pytest.mark.parametrize("status", ["open", "shipped", "delivered", "cancelled"])
def test_changes_of_an_order_are_free_in_one_state(default: Policy, tool: str, allowed: str, status: str) -> None:
    proposal = refund({"facts.order.status": status}, manifest=MANIFEST.model_copy(update={"risk": "medium"}))
    decision = decide(default, type(proposal)(tool, proposal.manifest, proposal.arguments, proposal.facts))
    if status == allowed:
        assert (decision.verdict, decision.rule) == ("free", "otherwise")
    else:
        assert (decision.verdict, decision.code) == ("refuse", Code.INVALID_STATE)
        assert reply_for(Code.INVALID_STATE, "act_1", decision.explanation).message.startswith(
            f"The state of the record does not allow this: it is {status}, and only a"
        )


@pytest.mark.parametrize("tool", ["lookup_orders", "get_refund_history"])
def test_look_ups_are_free(default: Policy, tool: str) -> None:
    manifest = MANIFEST.model_copy(update={"writes": False, "risk": "low"})
    proposal = refund(manifest=manifest)
    assert decide(default, type(proposal)(tool, manifest, {})).verdict == "free"


def test_what_the_ledger_counts(default: Policy) -> None:
    tool = default.tool("issue_refund")
    assert tool is not None
    assert [(c.name, c.per, c.window_seconds, c.of) for c in tool.subjects_needed()] == [
        ("order", "order", None, "amount"),
        ("customer_24h", "customer", 86_400, "amount"),
        ("customer_30d", "customer", 2_592_000, "amount"),
        ("agent_1h", "agent", 3_600, "amount"),
        ("agent_24h", "agent", 86_400, "amount"),
        ("agent_same_1h", "agent_amount", 3_600, "amount"),
        ("same_10m", "repeat", 600, "count"),
        ("refunds_per_run", "run", None, "count"),
        ("refunds_per_hour", "tool", 3_600, "count"),
        ("refunds_per_day", "tool", 86_400, "count"),
        ("order_cents_24h", "order", 86_400, "amount"),
        ("order_cents", "order", None, "amount"),
        ("customer_cents_24h", "customer", 86_400, "amount"),
        ("customer_cents_30d", "customer", 2_592_000, "amount"),
        ("agent_cents_1h", "agent", 3_600, "amount"),
        ("agent_cents_24h", "agent", 86_400, "amount"),
        ("tenant_cents_1h", "tenant", 3_600, "amount"),
        ("tenant_cents_24h", "tenant", 86_400, "amount"),
        ("breaker", "tool", 3_600, "count"),
    ]
