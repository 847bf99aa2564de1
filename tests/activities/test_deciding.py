"""Decisions as pure functions: what is admitted, and whether what was decided may still run."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from activities import deciding, reconsidering
from activities.deciding import Proposed
from ledger.admission import Admitted, Reads, Usage
from ledger.chain import GENESIS, Head
from ledger.folding import advanced
from policy.load import DEFAULT_POLICY
from policy.model import NOTHING_DONE, Policy
from runtime.policy import load_checked
from schemas.canonical import digest
from schemas.codes import Code
from tests.ledger.refunds import CATALOG, POLICY, TOOL, Refund, facts

NOW = datetime(2026, 11, 29, 8, 0, 0, 654_321, tzinfo=UTC)
WINDOWS = deciding.windows_for(POLICY.tool(TOOL), Refund(100).proposed)


class _Admission:
    """What becomes of a call that was admitted so."""

    def __init__(self, admitted: Admitted) -> None:
        self.events = admitted.events
        self.record, changes = advanced(None, admitted.events, head=Head(0, GENESIS), at=NOW)
        self.approval, self.takes = changes.asks, changes.takes
        self.explanation, self.effect = self.record.details.explanation, self.record.details.effect


def _admit(proposed: Proposed, *, reserved: int = 0, inline: bool = True, **used: int) -> _Admission:
    usage = {window.name: Usage(used.get(window.name, 0), used.get(window.name, 0), None) for window in WINDOWS}
    return _Admission(
        deciding.admit(POLICY, proposed, NOTHING_DONE, WINDOWS, Reads(NOW, reserved, usage), inline=inline)
    )


HELD = Refund(25_000, available=50_000).proposed
FREE = Refund(5_000).proposed


def _facts(proposed: Proposed, **changes: Any) -> Proposed:
    payment = proposed.facts.model_dump()["payment"]
    known = {"payment_id": payment["payment_id"], "available": payment["captured_cents"]}
    return replace(proposed, facts=facts(**(known | changes)))


def _policy(tmp_path: Path, change: tuple[str, str]) -> Policy:
    """The default policy with a change of its text."""
    text = DEFAULT_POLICY.read_text()
    assert change[0] in text
    file = tmp_path / "policy.yaml"
    file.write_text(text.replace(*change))
    return load_checked(file, CATALOG)


def _with_rule(verdict: str, because: str) -> tuple[str, str]:
    """A rule for every refund."""
    place = "      - name: over_threshold\n"
    lines = ["- name: for_all", f"  {verdict}", "  when: facts.order.order_id != ''", f"  because: {because}"]
    return place, "".join(f"      {line}\n" for line in lines) + place


def _still_allowed(now: Proposed, *, policy: Policy = POLICY, reserved: int = 0, before: Proposed = HELD) -> str | None:
    admitted = _admit(before)
    approved = admitted.approval.action_digest if admitted.approval else None
    return reconsidering.still_allowed(policy, now, admitted.record.details, approved, reserved)


def test_what_has_not_changed_may_run() -> None:
    assert _still_allowed(HELD) is None
    assert _still_allowed(FREE, before=FREE) is None


@pytest.mark.parametrize(
    "now",
    [
        _facts(HELD, disputed=True),
        _facts(HELD, fraud_flag=True),
        _facts(HELD, payment_id="pay_other"),
    ],
    ids=["disputed", "fraud flag", "other payment"],
)
def test_what_was_approved_on_other_facts_may_not(now: Proposed) -> None:
    assert _still_allowed(now) == "the facts have changed"


def test_what_was_approved_of_another_version_of_the_tool_may_not() -> None:
    newer = HELD.entry.manifest.model_copy(update={"version": "2.0.0"})
    assert _still_allowed(replace(HELD, entry=replace(HELD.entry, manifest=newer))) == "the facts have changed"


def test_what_is_no_longer_left_may_not() -> None:
    less = _facts(HELD, available=24_999)
    assert _still_allowed(less) == "more than can be refunded: it is more than is left"
    assert _still_allowed(HELD, reserved=25_001) == "more than can be refunded: it is more than is left"
    assert _still_allowed(HELD, reserved=25_000) is None


def test_a_stricter_policy_holds_from_now_on(tmp_path: Path) -> None:
    refusing = _policy(tmp_path, _with_rule("refuse: NOT_REFUNDABLE", "no refunds today"))
    for call in (HELD, FREE):
        because = _still_allowed(call, policy=refusing, before=call)
        assert because == "not refundable: no refunds today"
    holding = _policy(tmp_path, _with_rule("hold: finance", "of a new rule"))
    for call in (HELD, FREE):
        because = _still_allowed(call, policy=holding, before=call)
        assert because == "the policy asks for a person for another reason now"


def test_a_lower_threshold_asks_a_person_of_what_needed_none_but_not_again_of_what_had_one(tmp_path: Path) -> None:
    stricter = _policy(tmp_path, ("approval_cents: 20000", "approval_cents: 4000"))
    assert _still_allowed(FREE, policy=stricter, before=FREE) is not None
    both_rules = Refund(25_000, available=50_000).proposed
    assert _still_allowed(both_rules, policy=stricter, before=both_rules) is None


def test_limits_are_not_counted_again_for_what_was_counted() -> None:
    """It is one of the five itself by now."""
    admitted = _admit(HELD, refunds_per_run=4)
    assert admitted.approval is not None
    digest = admitted.approval.action_digest
    assert reconsidering.still_allowed(POLICY, HELD, admitted.record.details, digest, 0) is None


def test_what_is_reserved_counts_for_what_is_left() -> None:
    admitted = _admit(Refund(6_000).proposed, reserved=4_001)
    assert admitted.record.code is Code.REFUND_EXCEEDS_PAID
    assert admitted.explanation is not None
    assert admitted.explanation.allowed == {"max_amount_cents": 5_999}
    assert _admit(Refund(6_000).proposed, reserved=4_000).record.code is Code.IN_PROGRESS


def test_a_free_call_intends_at_once_only_where_it_is_also_sent() -> None:
    assert [event.type for event in _admit(FREE).events] == ["call.proposed", "call.decided", "effect.intended"]
    elsewhere = _admit(FREE, inline=False)
    assert [event.type for event in elsewhere.events] == ["call.proposed", "call.decided"]
    assert elsewhere.effect is None
    assert elsewhere.takes == _admit(FREE).takes


def test_a_held_call_never_intends() -> None:
    for inline in (True, False):
        admitted = _admit(HELD, inline=inline)
        assert [event.type for event in admitted.events] == ["call.proposed", "call.decided", "approval.requested"]
        assert admitted.effect is None


def test_the_deadline_that_is_told_is_the_one_that_is_judged_by() -> None:
    admitted = _admit(HELD)
    assert admitted.approval is not None
    assert admitted.explanation is not None
    assert admitted.approval.expires_at == NOW.replace(microsecond=0) + timedelta(hours=24)
    assert admitted.explanation.expires_at is not None
    assert datetime.fromisoformat(admitted.explanation.expires_at) == admitted.approval.expires_at


def test_an_approval_shows_the_agents_words_apart_and_never_the_key() -> None:
    approval = _admit(HELD).approval
    assert approval is not None
    assert set(approval.arguments) == {"order_id", "amount_cents", "currency", "reason_code"}
    assert approval.untrusted == {"note": HELD.call.arguments["note"]}
    assert str(HELD.call.arguments["note"]) not in approval.title


def test_a_hit_limit_is_an_event_of_its_own() -> None:
    admitted = _admit(FREE, refunds_per_run=5)
    assert [event.type for event in admitted.events] == ["call.proposed", "call.decided", "limit.hit", "call.settled"]
    assert admitted.record.code is Code.RATE_LIMITED
    assert admitted.takes == {}


@pytest.mark.parametrize(
    ("problem", "code"),
    [
        ("auth_failed", Code.AUTH_FAILED),
        ("forbidden", Code.REMOTE_FORBIDDEN),
        ("timeout", Code.NETWORK_UNREACHABLE),
    ],
)
def test_facts_that_cannot_be_read_let_nothing_through(problem: str, code: Code) -> None:
    admitted = _Admission(deciding.refused(FREE.call, deciding.unreadable(POLICY, problem), NOTHING_DONE))
    assert (admitted.record.code, admitted.record.status) == (code, "failed")
    assert admitted.takes == {}
    assert admitted.effect is None


def test_nobody_is_shown_the_value_of_an_argument_that_the_manifest_redacts() -> None:
    manifest = HELD.entry.manifest.model_copy(update={"redact": ("reason_code", "note")})
    call = HELD.call.model_copy(update={"arguments": {**HELD.call.arguments, "note": "my words"}})
    hidden = replace(HELD, call=call, entry=replace(HELD.entry, manifest=manifest))
    approval = _admit(hidden).approval
    assert approval is not None
    assert approval.arguments["reason_code"] == "(redacted)"
    assert approval.untrusted == {"note": "(redacted)"}
    assert "my words" not in approval.model_dump_json()
    assert approval.action_digest == digest(approval.action)
    assert _admit(hidden).record.details.call.arguments["note"] == "my words"
