"""The questions that are asked after an incident, answered from the events of one call. Pure.

An answer rests on events, which stand beside it; what they do not say is said not to be known.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from ledger.chain import EventRow
from ledger.signing import BadDecision, DecisionVerifier
from schemas.canonical import digest
from schemas.decisions import Approval
from schemas.effects import Exchange
from schemas.events import (
    ApprovalGranted,
    ApprovalRequested,
    ApprovalSupported,
    CallDecided,
    CallProposed,
    EffectConfirmed,
    EffectFailed,
    EffectIntended,
    EffectUnknown,
    Pruned,
    Recorded,
)
from schemas.tools import CapabilityClass, Manifest

Verdict = Literal["yes", "no", "not_known", "none"]
"""`none`: it is no question of yes or no, or does not arise."""
OUTWARD: frozenset[CapabilityClass] = frozenset(("external_communication", "browser_or_code"))
"""What tools of these classes are given, others than the systems of the service's own settings can read."""

Events = Sequence[tuple[EventRow, Recorded]]


@dataclass(frozen=True, slots=True)
class Evidence:
    """An event that an answer rests on; `digest` is its hash in the chain."""

    n: int
    type: str
    at: datetime
    digest: str


@dataclass(frozen=True, slots=True)
class Answer:
    """To one question. `question` is its name, for programs."""

    question: str
    asked: str
    verdict: Verdict
    said: str
    evidence: tuple[Evidence, ...]


@dataclass(frozen=True, slots=True)
class Case:
    """What there is to answer from. `manifest` is the tool's of the catalogue as it is now, None where it has none."""

    events: Events
    manifest: Manifest | None
    verifier: DecisionVerifier

    def of(self, *kinds: type[Recorded]) -> list[tuple[EventRow, Recorded]]:
        return [(row, event) for row, event in self.events if isinstance(event, kinds)]

    def evidence(self, *kinds: type[Recorded]) -> tuple[Evidence, ...]:
        return tuple(Evidence(row.n, row.type, row.at, row.hash.hex()) for row, _ in self.of(*kinds))

    @property
    def proposed(self) -> CallProposed | None:
        return next((event for _, event in self.events if isinstance(event, CallProposed)), None)

    @property
    def decided(self) -> CallDecided | None:
        return next((event for _, event in self.events if isinstance(event, CallDecided)), None)

    @property
    def is_whole(self) -> bool:
        """Whether every event still says what it said."""
        return not any(isinstance(event, Pruned) for _, event in self.events)

    @property
    def classes(self) -> frozenset[CapabilityClass] | None:
        """Of the tool, where the catalogue has the version that ran."""
        proposed = self.proposed
        if proposed is None or self.manifest is None or self.manifest.version != proposed.call.tool_version:
            return None
        return frozenset(self.manifest.capability_classes)


def answers(case: Case) -> list[Answer]:
    """Every question, in the order in which they are asked."""
    return [ask(case) for ask in _QUESTIONS]


def _tool(case: Case) -> Answer:
    asked = "Which tool was called, by whom?"
    proposed = case.proposed
    if proposed is None:
        return _unknown("tool", asked, "what was proposed is not kept any more")
    call, binding = proposed.call, proposed.call.binding
    said = f"{call.tool} {call.tool_version}, by {binding.agent_id} (run {binding.run_id}, for {binding.actor_id})"
    return Answer("tool", asked, "none", said, case.evidence(CallProposed))


def _classes(case: Case) -> Answer:
    asked = "Which capability classes does it have?"
    if case.classes is None:
        now = (
            f"; its version {case.manifest.version} has {_list(case.manifest.capability_classes)}"
            if case.manifest
            else ""
        )
        return _unknown("classes", asked, f"the catalogue does not have the version that ran{now}", case, CallProposed)
    return Answer("classes", asked, "none", _list(sorted(case.classes)), case.evidence(CallProposed))


def _policy(case: Case) -> Answer:
    asked = "Which policy allowed it?"
    if case.decided is None:
        return _unknown("policy", asked, "what was decided is not kept any more")
    made = case.decided.decision
    said = f"{made.policy_version} answered {made.verdict} by the rule {made.rule}: {made.because}"
    sent = [event for _, event in case.events if isinstance(event, EffectIntended)]
    if sent:
        said += f". Before it was sent {sent[-1].policy_version} was asked again, and still allowed it"
    verdict: Verdict = "no" if made.verdict == "refuse" else "yes"
    return Answer("policy", asked, verdict, said, case.evidence(CallDecided, EffectIntended))


def _untrusted(case: Case) -> Answer:
    asked = "Was there untrusted content?"
    run = None if case.decided is None else case.decided.run
    if run is None:
        return _unknown("untrusted_content", asked, "nobody wrote down what the run had done before", case, CallDecided)
    if "read_untrusted" in run.touched:
        said = f"its run had read what others can write; it had used {_list(run.tools)}"
        return Answer("untrusted_content", asked, "yes", said, case.evidence(CallDecided))
    if case.classes is not None and "read_untrusted" in case.classes:
        return Answer("untrusted_content", asked, "yes", "the tool itself reads it", case.evidence(CallProposed))
    said = (
        "its run had used no tool that reads what others can write; what its agent was told elsewhere is not known here"
    )
    return Answer("untrusted_content", asked, "no", said, case.evidence(CallDecided))


def _private(case: Case) -> Answer:
    asked = "Did private data leave?"
    sent = _exchanges(case)
    reached = sorted({each.system for each in sent if each.reached in ("bytes_sent", "response_received")})
    intended = case.of(EffectIntended)
    evidence = case.evidence(CallDecided, EffectIntended, EffectConfirmed, EffectFailed, EffectUnknown)
    if not case.is_whole:
        return _unknown("private_data", asked, "not every event still says what it said", case, CallDecided)
    if not intended and case.classes is not None and OUTWARD & case.classes:
        return _unknown(
            "private_data", asked, "the tool reads outside, and with what is not in the events", case, CallDecided
        )
    if not intended:
        said = "no effect was sent; what a read returned went to the agent that asked, and to nobody else"
        return Answer("private_data", asked, "no", said, evidence)
    fields = sorted(
        {name for _, event in intended if isinstance(event, EffectIntended) for name in event.effect.target}
    )
    if not reached and len(sent) == len(intended):
        return Answer("private_data", asked, "no", "it was about to be sent, and no byte left", evidence)
    to = _list(reached) if reached else "a system whose answer was lost"
    run = None if case.decided is None else case.decided.run
    said = f"{_list(fields)} went to {to}"
    if case.classes is None or run is None:
        return _unknown(
            "private_data",
            asked,
            f"{said}; whether the run had read private data, or the tool goes out, is not",
            case,
            EffectIntended,
        )
    if not OUTWARD & case.classes:
        return Answer(
            "private_data",
            asked,
            "no",
            f"{said}, a system of the service's own settings; the tool goes nowhere else",
            evidence,
        )
    if "read_private" not in run.touched:
        return Answer("private_data", asked, "no", f"{said}, and its run had read nothing private before", evidence)
    return Answer(
        "private_data",
        asked,
        "yes",
        f"{said}, and its run had read private data before: it may have been among that",
        evidence,
    )


def _bound(case: Case) -> Answer:
    asked = "Was the approval bound to the exact action?"
    granted = [event for _, event in case.events if isinstance(event, ApprovalGranted | ApprovalSupported)]
    evidence = case.evidence(ApprovalRequested, ApprovalSupported, ApprovalGranted, EffectIntended)
    if not granted:
        waited = bool(case.of(ApprovalRequested))
        said = "nobody approved it" if waited else "nobody was asked"
        if not case.is_whole:
            return _unknown("approval_bound", asked, "not every event still says what it said", case, ApprovalRequested)
        return Answer("approval_bound", asked, "none", said, evidence)
    requested = {event.approval_id: event for _, event in case.events if isinstance(event, ApprovalRequested)}
    problems = [problem for each in granted if (problem := _unbound(case, each, requested.get(each.approval_id)))]
    if problems:
        return Answer("approval_bound", asked, "no", "; ".join(problems), evidence)
    if any(_action(requested, each) is None for each in granted):
        return _unknown(
            "approval_bound", asked, "the signature holds for the digest; of what is not kept", case, ApprovalRequested
        )
    by = _list([each.approver for each in granted])
    said = f"{by} signed {granted[-1].action_digest}, which is the digest of the action that was shown"
    return Answer("approval_bound", asked, "yes", said, evidence)


def _unbound(
    case: Case, granted: ApprovalGranted | ApprovalSupported, requested: ApprovalRequested | None
) -> str | None:
    """What is wrong with a decision; None where nothing is."""
    try:
        signed = case.verifier.verify(granted.token)
    except BadDecision:
        return f"the decision of {granted.approver} does not verify with the keys at hand"
    if (signed.approval_id, signed.action_digest) != (granted.approval_id, granted.action_digest):
        return f"{granted.approver} signed another action"
    if requested is not None and requested.action_digest != granted.action_digest:
        return f"{granted.approver} was shown another action"
    action = None if requested is None or requested.approval is None else requested.approval.action
    if action is not None and digest(action) != granted.action_digest:
        return "the digest is not that of the action that was shown"
    return None


def _action(requested: Mapping[str, ApprovalRequested], granted: ApprovalGranted | ApprovalSupported) -> object:
    asked = requested.get(granted.approval_id)
    shown: Approval | None = None if asked is None else asked.approval
    return None if shown is None else shown.action


def _repeat(case: Case) -> Answer:
    asked = "Was it a repeat?"
    intended = [event for _, event in case.events if isinstance(event, EffectIntended)]
    evidence = case.evidence(CallProposed, EffectIntended)
    one = (
        "it is the only call under its key; requests that came again under it were answered with it, and left no event"
    )
    if not case.is_whole:
        return _unknown("repeat", asked, "not every event still says what it said", case, EffectIntended)
    if len(intended) > 1:
        keys = {event.effect.gateway_key for event in intended}
        how = "under one key, which its system takes once" if len(keys) == 1 else "under different keys"
        return Answer("repeat", asked, "yes", f"it was sent {len(intended)} times {how}; {one}", evidence)
    return Answer("repeat", asked, "no", f"it was sent {'once' if intended else 'not at all'}; {one}", evidence)


def _exchanges(case: Case) -> list[Exchange]:
    """Of each attempt of its effect, as far as it is known."""
    said = (event for _, event in case.events if isinstance(event, EffectConfirmed | EffectFailed | EffectUnknown))
    return [event.exchange for event in said if event.exchange is not None]


def _unknown(question: str, asked: str, because: str, case: Case | None = None, *kinds: type[Recorded]) -> Answer:
    return Answer(question, asked, "not_known", because, case.evidence(*kinds) if case else ())


def _list(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


_QUESTIONS: tuple[Callable[[Case], Answer], ...] = (_tool, _classes, _policy, _untrusted, _private, _bound, _repeat)
