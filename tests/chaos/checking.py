"""The checker: what must hold after any run, as pure functions over the evidence. Each yields its violations."""

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from itertools import pairwise
from typing import TypeVar

from tests.chaos.evidence import Call, Event, Evidence, instant
from tests.chaos.journal import Line

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)

REFUND = "issue_refund"
WRITES = {REFUND, "cancel_order", "change_shipping_address"}
WITHOUT_EFFECT = {"refused", "denied", "expired", "cancelled", "failed"}
SETTLED = WITHOUT_EFFECT | {"executed"}
_HOUR = timedelta(hours=1)
# Codes of requests that never became a call of the ledger.
_AT_THE_EDGE = {
    "INVALID_INPUT",
    "UNAUTHENTICATED",
    "FORBIDDEN",
    "TOOL_NOT_AVAILABLE",
    "IDEMPOTENCY_CONFLICT",
    "TEMPORARY_FAILURE",
    "INTERNAL_FAILURE",
}


@dataclass(frozen=True, order=True)
class Violation:
    """Something that must never happen, and with what it did."""

    what: str
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what}: {self.subject}{f' ({self.detail})' if self.detail else ''}"


def check(evidence: Evidence) -> list[Violation]:
    """Everything that does not hold."""
    return sorted({found for rule in RULES for found in rule(evidence)})


def _grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    groups: defaultdict[K, list[T]] = defaultdict(list)
    for item in items:
        groups[key(item)].append(item)
    return groups


def _by_operation(evidence: Evidence) -> dict[str, Call]:
    """The call that intended each operation."""
    return {intent["operation_id"]: call for call in evidence.calls for intent in call.intents}


def no_effect_twice(evidence: Evidence) -> Iterator[Violation]:
    """One operation is one refund, one change of an order; and so is one key at the gateway."""
    happened = [effect.operation_id for effect in evidence.effects]
    happened += [operation.operation_id for operation in evidence.operations]
    for subjects in (happened, [effect.idempotency_key for effect in evidence.effects]):
        for subject, times in Counter(subjects).items():
            if times > 1:
                yield Violation("an effect happened more than once", str(subject), f"{times} times")


def every_effect_is_a_calls(evidence: Evidence) -> Iterator[Violation]:
    """What happened outside was intended before, by one call, exactly so, and is not denied by it."""
    calls = _by_operation(evidence)
    for effect in evidence.effects:
        call = calls.get(effect.operation_id or "")
        if call is None:
            yield Violation("an effect that no call intended", effect.refund_id, effect.payment_id)
            continue
        intent = call.intents[0]
        target = intent["target"]
        asked = (target["payment_id"], target["amount_cents"], target["currency"], intent["gateway_key"])
        if asked != (effect.payment_id, effect.amount, effect.currency.upper(), effect.idempotency_key):
            yield Violation("an effect is not the one that was intended", effect.refund_id, call.request_id)
        if instant(effect.at) < instant(intent["intended_at"]):
            yield Violation("an effect happened before its intent", effect.refund_id, call.request_id)
        if effect.stands and call.status in WITHOUT_EFFECT:
            yield Violation("an effect stands, and its call ended without one", call.request_id, call.status)
    for operation in evidence.operations:
        call = calls.get(operation.operation_id or "")
        if call is None:
            yield Violation("an effect that no call intended", operation.order_id, operation.kind)
        elif call.status in WITHOUT_EFFECT:
            yield Violation("an effect stands, and its call ended without one", call.request_id, call.status)


def every_executed_call_has_its_effect(evidence: Evidence) -> Iterator[Violation]:
    """Executed means that it happened and stands; reversed means that it was given back."""
    effects = {effect.operation_id: effect for effect in evidence.effects}
    changes = {operation.operation_id for operation in evidence.operations}
    for call in evidence.calls:
        if call.tool not in WRITES:
            continue
        operation_id = call.intents[0]["operation_id"] if call.intents else None
        if call.status == "executed" and operation_id not in (effects if call.tool == REFUND else changes):
            yield Violation("an executed call without an effect", call.request_id, call.tool)
        if call.status == "executed" and operation_id in effects and not effects[operation_id].stands:
            yield Violation("a refund failed later, and the ledger does not know", call.request_id)
        if call.first("effect.reversed") and operation_id in effects and effects[operation_id].stands:
            yield Violation("a reversed effect stands", call.request_id)


def no_order_gives_back_more_than_it_took(evidence: Evidence) -> Iterator[Violation]:
    """Outside, and in the ledger: what was executed or may yet turn out to have been."""
    given_back = {effect.operation_id for effect in evidence.effects if not effect.stands}
    sums: dict[str, Counter[str]] = {"outside": Counter(), "in the ledger": Counter()}
    for effect in evidence.effects:
        if effect.stands:
            sums["outside"][effect.payment_id] += effect.amount
    for call in evidence.calls:
        if call.tool == REFUND and call.intents and call.status not in WITHOUT_EFFECT:
            intent = call.intents[0]
            if intent["operation_id"] not in given_back:
                sums["in the ledger"][intent["target"]["payment_id"]] += intent["target"]["amount_cents"]
    for where, by_payment in sums.items():
        for payment_id, refunded in by_payment.items():
            took = evidence.captured.get(payment_id, 0)
            if refunded > took:
                yield Violation("more was refunded than was paid", payment_id, f"{refunded} of {took}, {where}")


def nothing_is_refused_for_want_of_what_is_there(evidence: Evidence) -> Iterator[Violation]:
    """A refund that is more than is left is more than what all the others took in the end, where none gave any back."""
    refunds = [call for call in evidence.calls if call.tool == REFUND]
    given_back = {effect.operation_id for effect in evidence.effects if not effect.stands}
    for order_id, calls in _grouped(refunds, lambda call: call.arguments["order_id"]).items():
        short = [call for call in calls if call.status == "refused" and _for_want_of_money(call)]
        released = any(
            call.status in WITHOUT_EFFECT - {"refused"} or (call.code == "APPROVAL_VOID" and call not in short)
            for call in calls
        )
        if released or any(intent["operation_id"] in given_back for call in calls for intent in call.intents):
            continue
        taken = sum(call.arguments["amount_cents"] for call in calls if call.status not in WITHOUT_EFFECT)
        for call in short:
            if taken + call.arguments["amount_cents"] <= evidence.captured.get(order_id, 0):
                yield Violation("a refund was refused for want of what was there", call.request_id, order_id)


def _for_want_of_money(call: Call) -> bool:
    (settled,) = call.bodies("call.settled")[-1:]
    because = settled.get("explanation", {}).get("values", {}).get("because", "")
    return call.code == "REFUND_EXCEEDS_PAID" or "more than can be refunded" in because


def limits_hold(evidence: Evidence) -> Iterator[Violation]:
    """Refunds that were not refused or released, by run, and within any hour."""
    live = [call for call in evidence.calls if call.tool == REFUND and call.status not in WITHOUT_EFFECT]
    for run_id, calls in _grouped(live, lambda call: call.run_id).items():
        if len(calls) > evidence.limits.per_run:
            yield Violation("the limit of a run was exceeded", run_id, f"{len(calls)} of {evidence.limits.per_run}")
    for tenant, calls in _grouped(live, lambda call: call.tenant).items():
        times = sorted(call.proposed_at for call in calls)
        over = zip(times, times[evidence.limits.per_hour :], strict=False)
        if any(later - earlier < _HOUR for earlier, later in over):
            yield Violation("the limit of an hour was exceeded", tenant, f"more than {evidence.limits.per_hour}")


def people_decide_what_is_theirs(evidence: Evidence) -> Iterator[Violation]:
    """Nothing over the threshold without a person's yes before it, or two people's; what was approved is settled."""
    for call in evidence.calls:
        granted, denied = call.first("approval.granted"), call.first("approval.denied")
        intended = call.first("effect.intended")
        if len(call.bodies("approval.granted")) + len(call.bodies("approval.denied")) > 1:
            yield Violation("an approval was decided more than once", call.request_id)
        large = call.tool == REFUND and call.arguments["amount_cents"] > evidence.limits.threshold
        if large and intended and (granted is None or granted.n > intended.n):
            yield Violation("sent without the approval that it needs", call.request_id)
        support = call.first("approval.supported")
        very_large = call.tool == REFUND and call.arguments["amount_cents"] > evidence.limits.four_eyes
        if very_large and intended and _one_person(support, granted):
            yield Violation("sent without the second person that it needs", call.request_id)
        if intended and (denied or call.status in ("denied", "expired", "cancelled")):
            yield Violation("sent although it was denied, expired or withdrawn", call.request_id, call.status)
        if granted and call.status in ("pending_approval", "denied", "expired", "cancelled"):
            yield Violation("approved, and neither settled nor in review", call.request_id, call.status)


def _one_person(support: Event | None, granted: Event | None) -> bool:
    if support is None or granted is None:
        return True
    return support.body["approver"] == granted.body["approver"]


def everything_comes_to_rest(evidence: Evidence) -> Iterator[Violation]:
    """In the end a call is settled, waits for a person, or is in review with an alert."""
    for call in evidence.calls:
        if call.status == "in_progress":
            yield Violation("a call never came to rest", call.request_id, call.events[-1].type)
        if call.status == "outcome_unknown":
            if not call.first("review.requested"):
                yield Violation("an outcome is unknown, and nobody was asked", call.request_id)
            elif not call.alerts:
                yield Violation("a review without an alert", call.request_id)


def the_ledger_is_sound(evidence: Evidence) -> Iterator[Violation]:
    """Events in one chain, one intent however often it is sent, one key for it, and one end."""
    keys: defaultdict[str, set[str]] = defaultdict(set)
    for call in evidence.calls:
        numbers = [event.n for event in call.events] == list(range(1, len(call.events) + 1))
        linked = all(after.previous == before.hash for before, after in pairwise(call.events))
        if not (numbers and linked and call.chain_holds):
            yield Violation("a call's chain of events is broken", call.request_id)
        for intent in call.intents:
            keys[intent["gateway_key"]].add(call.request_id)
        if len({(intent["gateway_key"], intent["operation_id"]) for intent in call.intents}) > 1:
            yield Violation("a call was sent under more than one key", call.request_id)
        if call.tool in WRITES and call.status == "executed" and not call.intents:
            yield Violation("executed without an intent", call.request_id)
        reopened = len(call.bodies("effect.reversed")) + ("effect_after_all" in call.alerts)
        if len(call.bodies("call.settled")) > 1 + reopened:
            yield Violation("a call settled more than once", call.request_id)
    for key, calls in keys.items():
        if len(calls) > 1:
            yield Violation("a gateway key was used by more than one call", key, ", ".join(sorted(calls)))
    writes = (call for call in evidence.calls if call.tool in WRITES)
    for (_, tool, key), calls in _grouped(writes, lambda call: (call.tenant, call.tool, _key(call))).items():
        if len(calls) > 1:
            yield Violation("one idempotency key became more than one call", key, f"{tool}, {len(calls)} calls")


def _key(call: Call) -> str:
    return call.arguments["idempotency_key"]


def agents_were_told_the_truth(evidence: Evidence) -> Iterator[Violation]:
    """Whatever an agent was told of a call is what the ledger says of it; and one key is one call."""
    calls = {call.request_id: call for call in evidence.calls}
    answers: defaultdict[str, set[str]] = defaultdict(set)
    for line in evidence.agents:
        if line["kind"] not in ("told", "looked", "cancel told"):
            continue
        reply = line["reply"]
        request_id, status = reply["request_id"], reply["status"]
        call = calls.get(request_id)
        if reply.get("dry_run") or line.get("dry_run"):
            if call is not None:
                yield Violation("a dry run became a call", request_id)
            continue
        if reply["code"] in _AT_THE_EDGE and call is None:
            continue
        if call is None:
            yield Violation("an agent was told of a call that the ledger does not have", request_id, status)
            continue
        if status in SETTLED and status not in call.told:
            yield Violation("an agent was told another end than the ledger's", request_id, f"{status}, {call.status}")
        if line["kind"] != "told":
            continue
        if line["arguments"] != call.arguments or line["run_id"] != call.run_id:
            yield Violation("an agent was told of another call than it asked for", request_id)
        if "idempotency_key" in line["arguments"]:
            answers[f"{line['tool']} {line['arguments']['idempotency_key']}"].add(request_id)
        result = reply.get("result") or {}
        if (
            call.tool == REFUND
            and status == "executed"
            and result.get("amount_cents") != call.arguments["amount_cents"]
        ):
            yield Violation("an agent was told of another amount than it asked for", request_id)
    for key, request_ids in answers.items():
        if len(request_ids) > 1:
            yield Violation("the answers to one key are about more than one call", key, ", ".join(sorted(request_ids)))


def people_were_told_the_truth(evidence: Evidence) -> Iterator[Violation]:
    """A decision that was taken stands in the ledger, and no other one was taken for the same approval."""
    calls = {call.request_id: call for call in evidence.calls}
    taken = [line for line in evidence.people if line["kind"] == "decision told" and line["http"] == 200]
    for approval_id, decisions in _grouped(taken, lambda line: line["approval_id"]).items():
        if len({line["verdict"] for line in decisions if not _waits(line)}) > 1:
            yield Violation("two people were told that their decision counts", approval_id)
        for line in decisions:
            call = calls.get(line["request_id"])
            event = "approval.granted" if line["verdict"] == "approve" else "approval.denied"
            event = "approval.supported" if _waits(line) else event
            bodies = call.bodies(event) if call else []
            if not any(body["approval_id"] == approval_id for body in bodies):
                yield Violation("a person was told of a decision that the ledger does not have", approval_id)


def _waits(line: Line) -> bool:
    """Whether the person was told that another one has to approve as well."""
    return line.get("reply", {}).get("status") == "waiting_for_second"


RULES: tuple[Callable[[Evidence], Iterator[Violation]], ...] = (
    no_effect_twice,
    every_effect_is_a_calls,
    every_executed_call_has_its_effect,
    no_order_gives_back_more_than_it_took,
    nothing_is_refused_for_want_of_what_is_there,
    limits_hold,
    people_decide_what_is_theirs,
    everything_comes_to_rest,
    the_ledger_is_sound,
    agents_were_told_the_truth,
    people_were_told_the_truth,
)
