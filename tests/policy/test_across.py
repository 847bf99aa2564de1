"""Rules for every tool of a kind, and what a run has touched."""

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from pydantic import JsonValue

from policy.decide import decide
from policy.document import kinds_of
from policy.load import DEFAULT_POLICY, load_policy
from policy.model import Policy, Proposal
from policy.problems import PolicyError
from policy.vocabulary import Vocabulary
from runtime.evaluation.outside import TOOLS
from runtime.policy import load_checked
from runtime.testing import ToolUnderTest
from schemas.base import Model
from schemas.calls import RunFacts
from schemas.codes import Code
from schemas.tools import CapabilityClass
from tools.catalog import BUILT_IN, Catalog

CATALOG = Catalog.load()
OUTWARD: tuple[CapabilityClass, ...] = ("external_communication", "write_side_effect")
PRIVATE_AND_UNTRUSTED = RunFacts(tools=("lookup_orders", "read_ticket"), touched=("read_private", "read_untrusted"))

Values = Mapping[str, JsonValue]
TICKET: dict[str, JsonValue] = {
    "ticket_id": "7",
    "status": "open",
    "replies": 0,
    "updated_stamp": "2026-01-02T03:04:05Z",
}
CONTACT: Values = {"contact": {"contact_id": "ctc_000000000001"}}

POLICY = """
name: test
defaults: {approvers: finance, deadline: 24h}
across:
  class:external_communication:
    rules:
      - name: outward
        refuse: UNSAFE_CHAIN
        when: '"read_private" in run.touched && "read_untrusted" in run.touched'
        because: the run has read private data and text that strangers wrote
  reversibility:irreversible:
    totals: {turn: {per: turn, of: count}}
    rules:
      - {name: chained, hold: finance, when: totals.turn > 0, because: another call of the turn did something for good}
tools:
  send_message:
    otherwise: free
  fetch_page:
    otherwise: free
  cancel_order:
    otherwise: free
"""


class Nothing(Model):
    pass


def _writing(*classes: CapabilityClass) -> Vocabulary:
    schema = Nothing.model_json_schema()
    return Vocabulary.of(schema, schema, classes=classes, kinds=kinds_of(classes, "irreversible"))


VOCABULARIES = {
    "send_message": _writing(*OUTWARD),
    "fetch_page": Vocabulary.of(
        Nothing.model_json_schema(),
        classes=["read_untrusted", "external_communication"],
        kinds=kinds_of(["read_untrusted", "external_communication"], "reversible"),
    ),
    "cancel_order": Vocabulary.of(
        Nothing.model_json_schema(), Nothing.model_json_schema(), kinds=kinds_of(["write_side_effect"], "reversible")
    ),
}


@pytest.fixture
def policy(write: Callable[[str], Path]) -> Policy:
    return load_policy(write(POLICY), VOCABULARIES)


def _proposal(tool: str, run: RunFacts, *, turn: int = 0) -> Proposal:
    known = CATALOG.get("cancel_order")
    assert known is not None
    manifest = known.manifest.model_copy(update={"name": tool})
    return Proposal(tool=tool, manifest=manifest, arguments={}, run=run, totals={"turn": turn})


@pytest.mark.parametrize("tool", ["send_message", "fetch_page"])
def test_every_tool_of_the_kind_has_its_rules(policy: Policy, tool: str) -> None:
    decision = decide(policy, _proposal(tool, PRIVATE_AND_UNTRUSTED))
    assert (decision.verdict, decision.rule, decision.code) == ("refuse", "outward", Code.UNSAFE_CHAIN)


@pytest.mark.parametrize("touched", [(), ("read_private",), ("read_untrusted",)])
def test_one_without_the_other_is_no_chain(policy: Policy, touched: tuple[CapabilityClass, ...]) -> None:
    assert decide(policy, _proposal("send_message", RunFacts(touched=touched))).verdict == "free"


def test_other_kinds_are_left_alone(policy: Policy) -> None:
    assert decide(policy, _proposal("cancel_order", PRIVATE_AND_UNTRUSTED, turn=1)).verdict == "free"


def test_a_second_one_of_a_turn_waits(policy: Policy) -> None:
    assert decide(policy, _proposal("send_message", RunFacts(), turn=1)).rule == "chained"
    assert decide(policy, _proposal("send_message", RunFacts(), turn=0)).verdict == "free"


def test_a_tool_may_be_taken_out(write: Callable[[str], Path]) -> None:
    text = POLICY.replace("  send_message:\n", "  send_message:\n    without: [outward]\n")
    taken_out = load_policy(write(text), VOCABULARIES)
    assert decide(taken_out, _proposal("send_message", PRIVATE_AND_UNTRUSTED)).verdict == "free"
    assert decide(taken_out, _proposal("send_message", PRIVATE_AND_UNTRUSTED, turn=1)).rule == "chained"
    assert decide(taken_out, _proposal("fetch_page", PRIVATE_AND_UNTRUSTED)).rule == "outward"


@pytest.mark.parametrize(
    ("before", "after", "problem"),
    [
        ("class:external_communication", "class:external", "must be class:NAME or reversibility:NAME"),
        ("run.touched &&", "run.touchd &&", "run.touchd is not known; there is run.tools, run.touched"),
        (
            "  cancel_order:\n",
            "  cancel_order:\n    without: [outward]\n",
            "without: no rule across its kinds is outward",
        ),
        (
            "  send_message:\n",
            "  send_message:\n    totals: {turn: {per: run, of: count}}\n",
            "turn is a name in reversibility:irreversible already",
        ),
        ("name: chained", "name: outward", "two rules or limits have this name"),
        ("totals.turn > 0", "args.amount > 0", "args.amount is not known"),
    ],
)
def test_what_is_wrong(write: Callable[[str], Path], before: str, after: str, problem: str) -> None:
    assert before in POLICY
    with pytest.raises(PolicyError) as raised:
        load_policy(write(POLICY.replace(before, after, 1)), VOCABULARIES)
    assert problem.removeprefix("must be ") in str(raised.value)


def test_it_is_part_of_the_version(write: Callable[[str], Path], policy: Policy) -> None:
    other = load_policy(write(POLICY.replace("totals.turn > 0", "totals.turn > 1")), VOCABULARIES)
    assert other.version != policy.version


def test_words_that_a_person_agreed_to_go_out_whatever_the_run_has_read() -> None:
    draft: dict[str, JsonValue] = {"draft_id": "1", "altered": False, "posted": False, "words": "Hello."}
    call: Values = {"draft_id": "7-1"}
    facts: dict[str, JsonValue] = {"ticket": TICKET, "draft": draft}
    reply = ToolUnderTest.load(BUILT_IN / "post_approved_ticket_reply")
    assert reply.decide(call, facts, PRIVATE_AND_UNTRUSTED).verdict == "notify"
    other_words = facts | {"draft": draft | {"altered": True}}
    assert reply.decide(call, other_words, PRIVATE_AND_UNTRUSTED).rule == "altered"

    # Nobody has read the words of a text message.
    message = ToolUnderTest.load(TOOLS / "send_text_message")
    decision = message.decide({"text": "Hello."}, CONTACT, PRIVATE_AND_UNTRUSTED)
    assert (decision.verdict, decision.rule, decision.code) == ("refuse", "private_data_outward", Code.UNSAFE_CHAIN)
    assert message.decide({"text": "Hello."}, CONTACT, RunFacts(touched=("read_private",))).verdict == "notify"


def test_every_draft_of_a_reply_waits_for_a_person_before_it_can_be_posted() -> None:
    """What lets `post_approved_ticket_reply` out of the chain."""
    drafting = load_checked(DEFAULT_POLICY, CATALOG).tool("create_ticket_reply_draft")
    assert drafting is not None
    assert drafting.otherwise == "hold"
    body: Values = {"ticket_id": "7", "body": "Hello."}
    draft = ToolUnderTest.load(BUILT_IN / "create_ticket_reply_draft")
    for status in ("new", "open", "pending", "hold", "solved", "unheard_of"):
        assert draft.decide(body, {"ticket": TICKET | {"status": status}}, RunFacts()).verdict == "hold", status


def test_nothing_from_strangers_is_remembered() -> None:
    note = ToolUnderTest.load(TOOLS / "remember_note")
    call: Values = {"text": "Prefers e-mail."}
    decision = note.decide(call, CONTACT, RunFacts(touched=("read_untrusted",)))
    assert (decision.verdict, decision.rule, decision.code) == ("refuse", "untrusted_memory", Code.UNSAFE_CHAIN)
    assert note.decide(call, CONTACT, RunFacts(touched=("read_private",))).verdict == "free"


def test_the_default_policy_lets_money_move_once_a_turn() -> None:
    policy = load_checked(DEFAULT_POLICY, CATALOG)
    refund = policy.tool("issue_refund")
    assert refund is not None
    assert refund.holds[0].name == "chained"
    assert [each.per for each in refund.totals if each.name == "turn"] == ["turn"]
