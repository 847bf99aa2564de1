"""Every mistake in what a policy says of a tool has its own message, which names the tool and the rule."""

import pytest

from policy.load import load_policy
from tests.policy.refunds import Write
from tests.policy.texts import HEAD, TAIL, VOCABULARIES, problems, rule

NAMES = "args, facts, run, totals, thresholds"
FACTS = (
    "facts.order.age_minutes, facts.order.disputed, facts.order.nickname, facts.order.status, facts.order.tags, "
    "facts.previous.age_minutes, facts.previous.disputed, facts.previous.nickname, facts.previous.status, "
    "facts.previous.tags"
)
ARGS = "args.amount_cents, args.currency, args.note, args.order_id"
CODES = "a rule may refuse with NOT_REFUNDABLE, INVALID_STATE, TOOL_NOT_AVAILABLE, UNSAFE_CHAIN"


@pytest.mark.parametrize(
    ("when", "problem"),
    [
        ("facts.order.state == 'open'", f"facts.order.state is not known; there is {FACTS}"),
        ("has(facts.order.state)", f"facts.order.state is not known; there is {FACTS}"),
        ("args.amount > 1", f"args.amount is not known; there is {ARGS}"),
        ("order.status == 'open'", f"order.status is not known; names begin with {NAMES}"),
        ("amount_cents > 1", f"amount_cents is not known; names begin with {NAMES}"),
        ("totals.day > 1", "totals.day is not known; there is nothing under totals"),
        ("thresholds.x > 1", "thresholds.x is not known; there is nothing under thresholds"),
        ("facts['order'].disputed", "facts must be followed by a name, e.g. facts.order"),
        ("args.amount_cents > '1'", "mixes values of different types, e.g. text and a number"),
        ("args.amount_cents > 1.5 + 1", "mixes values of different types, e.g. text and a number"),
        ("args.amount_cents + 1", "does not answer true or false"),
        ("facts.order.status", "does not answer true or false"),
        ("isOpen(facts.order.status)", "isOpen is not known"),
        ("facts.order.disputed ? true : 1", "does not answer true or false"),
        ("facts.order.disputed ? 1 : true", "does not answer true or false"),
        ("args.amount_cents >", "is not a CEL expression: mismatched input '<EOF>' expecting"),
    ],
)
def test_conditions(write: Write, when: str, problem: str) -> None:
    found = problems(write(rule(f'hold: finance\nwhen: "{when}"\nbecause: so it is')))
    assert len(found) == 1
    assert found[0].startswith(f"issue_refund / one / when: {problem}")


@pytest.mark.parametrize(
    ("lines", "where", "problem"),
    [
        ("hold: a b\nwhen: 'true'\nbecause: b", "hold", "must match ^[a-z][a-z0-9_-]{1,62}$"),
        ("refuse: NO\nwhen: 'true'\nbecause: b", "refuse", CODES),
        ("refuse: OK\nwhen: 'true'\nbecause: b", "refuse", CODES),
        ("refuse: RATE_LIMITED\nwhen: 'true'\nbecause: b", "refuse", CODES),
        ("when: 'true'\nbecause: b", "", "a rule has either refuse or hold"),
        ("hold: finance\nrefuse: INVALID_STATE\nwhen: 'true'\nbecause: b", "", "a rule has either refuse or hold"),
        ("hold: finance\nbecause: b", "when", "is missing"),
        ("hold: finance\nwhen: true\nbecause: b", "when", "input should be a valid string"),
        ("hold: finance\nwhen: 'true'", "because", "is missing"),
        ("hold: finance\nwhen: 'true'\nbecause: b\nunless: x", "unless", "there is no such field"),
        ("hold: finance\nwhen: 'true'\nbecause: b\ndeadline: 1 day", "deadline", "write a duration as a whole number"),
        ("hold: finance\nwhen: 'true'\nbecause: b\ndeadline: 24", "deadline", "write a duration as a whole number"),
        ("hold: finance\nwhen: 'true'\nbecause: b\nuse_tool: cancel_order", "", "use_tool belongs to a refuse rule"),
        *(
            (
                f"refuse: INVALID_STATE\nwhen: 'true'\nbecause: b\n{line}",
                "",
                "deadline, people, proof and escalates_to belong to a hold rule",
            )
            for line in ("deadline: 1h", "people: 2", "proof: passkey", "escalates_to: leads")
        ),
        ("hold: finance\nwhen: 'true'\nbecause: b\npeople: 3", "people", "input should be less than or equal to 2"),
        (
            "hold: finance\nwhen: 'true'\nbecause: b\nproof: password",
            "proof",
            "must be 'reauthenticated' or 'passkey'",
        ),
        ("hold: finance\nwhen: 'true'\nbecause: b\npeople: true", "people", "input should be a valid integer"),
        ("hold: finance\nwhen: 'true'\nbecause: b\nescalates_to: finance", "", "escalates_to is the group"),
        ("refuse: INVALID_STATE\nwhen: 'true'\nbecause: b\nuse_tool_when: 'true'", "", "use_tool_when needs use_tool"),
        ("refuse: INVALID_STATE\nwhen: 'true'\nbecause: b\nuse_tool: voucher", "use_tool", "there is no tool voucher"),
        (
            "refuse: INVALID_STATE\nwhen: 'true'\nbecause: b\nuse_tool: cancel_order\nuse_tool_when: facts.x",
            "use_tool_when",
            f"facts.x is not known; there is {FACTS}",
        ),
        ("hold: finance\nwhen: 'true'\nbecause: is {facts.x}", "because", f"facts.x is not known; there is {FACTS}"),
        (
            "hold: finance\nwhen: 'true'\nbecause: is {status}",
            "because",
            f"status is not known; names begin with {NAMES}",
        ),
        ("hold: finance\nwhen: 'true'\nbecause: is {args.note}", "because", "args.note is written by the agent"),
        ("hold: finance\nwhen: 'true'\nbecause: is {facts.order}", "because", "facts.order is not one value"),
        ("hold: finance\nwhen: 'true'\nbecause: is {facts.order.tags}", "because", "facts.order.tags is not one value"),
        ("hold: finance\nwhen: 'true'\nbecause: is {x", "because", "braces hold a name"),
        ("hold: finance\nwhen: 'true'\nbecause: is {args.currency:money}", "because", "args.currency is no amount"),
        ('hold: finance\nwhen: "true"\nbecause: "two\\nlines"', "because", "must match"),
    ],
)
def test_rules(write: Write, lines: str, where: str, problem: str) -> None:
    found = problems(write(rule(lines)))
    assert len(found) == 1
    assert found[0].startswith(f"issue_refund / one{' / ' if where else ''}{where}: {problem}")


RULE = "rules: [{name: one, hold: finance, when: 'true', because: b}]"


@pytest.mark.parametrize(
    ("tool", "problem"),
    [
        ("otherwise: maybe", " / otherwise: must be 'free', 'notify', 'hold' or 'refuse'"),
        ("rules: {}", ": must be a list"),
        (
            "thresholds: {a_b: 1.5}",
            " / thresholds / a_b: input should be a valid int",
        ),
        (
            "thresholds: {a_b: 010}",
            " / thresholds / a_b: input should be a valid int",
        ),
        (
            "thresholds: {a_b: 24:00}",
            " / thresholds / a_b: input should be a valid int",
        ),
        ("thresholds: {a_b: 1}", " / thresholds / a_b: no rule uses it"),
        ("totals: {day: {per: run, of: count}}", " / totals / day: no rule uses it"),
        (
            "totals: {day: {per: month, of: count}}",
            " / totals / day / per: must be 'run',",
        ),
        ("limits: [{name: cap, per: run}]", " / limits / cap / max: is missing"),
        (
            "limits: [{name: cap, per: run, max: 0}]",
            " / limits / cap / max: input should be",
        ),
        ("limits: [{per: run, max: 1}]", " / limits / no. 1 / name: is missing"),
        (
            "limits: [{name: cap, per: run, max: 1, because: '{min}'}]",
            " / cap / because: the one name a limit can say is {max}",
        ),
        (
            f"{RULE}\n    limits: [{{name: one, per: run, max: 1}}]",
            " / one: two rules or limits have this name",
        ),
        (
            "rules: [{name: otherwise, hold: finance, when: 'true', because: b}]",
            " / otherwise: the name is taken by a decision that no rule makes",
        ),
        (
            "totals: {cap: {per: run, of: count}}\n    limits: [{name: cap, per: run, max: 1}]\n"
            "    rules: [{name: one, hold: finance, when: totals.cap > 1, because: b}]",
            " / cap: a total and a limit have this name",
        ),
    ],
)
def test_tools(write: Write, tool: str, problem: str) -> None:
    otherwise = "" if "otherwise:" in tool else "    otherwise: free\n"
    found = problems(write(f"{HEAD}    {tool}\n{otherwise}"))
    assert len(found) == 1
    assert found[0].startswith(f"issue_refund{problem}")


def test_otherwise_is_needed(write: Write) -> None:
    assert problems(write(f"{HEAD}    rules: []\n")) == ["issue_refund / otherwise: is missing"]


def test_a_code_needs_what_its_sentence_names(write: Write) -> None:
    text = rule("refuse: NOT_REFUNDABLE\nwhen: 'true'\nbecause: b").replace("issue_refund", "cancel_order")
    text = text.replace("otherwise", "limits: [{name: cap, per: order, max: 1}]\n    otherwise")
    assert problems(write(text)) == [
        "cancel_order / one / refuse: NOT_REFUNDABLE speaks of order_id, which is no argument of the tool",
        "cancel_order / cap / per: the tool has no argument order_id to count by",
    ]


def test_a_tool_that_only_reads_is_answered_at_once(write: Write) -> None:
    text = rule("hold: finance\nwhen: args.limit > 5\nbecause: b").replace("issue_refund", "lookup_orders")
    text = text.replace("otherwise", "limits: [{name: cap, per: run, max: 1}]\n    otherwise")
    assert problems(write(text)) == [
        "lookup_orders: a tool that only reads is not counted: it has neither totals, limits nor a breaker",
        "lookup_orders: a tool that only reads is answered at once: nothing can hold it",
    ]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("breaker: {window: 1h, max: 200, trips: 'class:money_movement'}", []),
        ("breaker: {window: 1h, max: 200, trips: 'tool:issue_refund'}", []),
        (
            "breaker: {window: 1h, max: 200, trips: 'tool:cancel_order'}",
            [
                "issue_refund / breaker / trips: does not cover the tool; there is tool:issue_refund, "
                "class:money_movement"
            ],
        ),
        (
            "breaker: {window: 1h, max: 200, trips: all}",
            ["issue_refund / breaker / trips: a breaker turns off tool:NAME or class:NAME"],
        ),
        (
            "breaker: {window: 1h, max: 200, trips: money}",
            [
                "issue_refund / breaker / trips: a switch is all, tenant:NAME, tool:NAME, class:NAME, agent:ID, run:ID "
                "or vault"
            ],
        ),
        ("breaker: {max: 0, trips: 'tool:issue_refund'}", ["issue_refund / breaker / window: is missing"]),
        (
            "limits: [{name: breaker, per: run, max: 1}]",
            ["issue_refund / breaker: the name is taken by a decision that no rule makes; choose another"],
        ),
        (
            "limits: [{name: parked_per_agent, per: run, max: 1}]",
            ["issue_refund / parked_per_agent: the name is taken by a decision that no rule makes; choose another"],
        ),
        (
            "limits: [{name: all, per: everyone, max: 1}]",
            [
                "issue_refund / limits / all / per: must be 'run', 'turn', 'customer', 'order', 'agent', "
                "'agent_amount', 'tool', 'tenant' or 'repeat'"
            ],
        ),
    ],
)
def test_breakers_and_limits(write: Write, lines: str, expected: list[str]) -> None:
    path = write(f"{HEAD}    {lines}\n{TAIL}")
    if expected == []:
        assert load_policy(path, VOCABULARIES).tools["issue_refund"].breaker is not None
        return
    assert problems(path)[:1] == expected


def test_room_for_what_waits_is_at_least_one(write: Write) -> None:
    head = HEAD.replace("deadline: 24h", "deadline: 24h, parked: {per_agent: 0, per_tenant: 5}")
    assert problems(write(head + TAIL)) == ["defaults / parked / per_agent: input should be greater than or equal to 1"]
