"""What is counted for a decision: which windows, what they came to, and what a call takes. Pure."""

from collections.abc import Mapping, Sequence
from datetime import timedelta

from pydantic import JsonValue

from ledger.admission import Reads, Window
from policy.model import BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT, Counter, PolicyTool, Usage
from schemas.calls import Call
from schemas.decisions import Claim
from schemas.subjects import TENANT, Countable, subject_of


def windows(
    policy_tool: PolicyTool | None, call: Call, does: Mapping[str, JsonValue], claim: Claim | None
) -> list[Window]:
    """What to count against for a call; `does`: its arguments that say what is to be done."""
    if policy_tool is None:
        return []
    binding = call.binding
    countable = Countable(
        run_id=binding.run_id,
        request_id=call.request_id,
        trace_id=call.trace_id,
        customer_id=binding.customer_id,
        agent_id=binding.agent_id,
        does=does,
        takes=None if claim is None else (claim.amount, claim.currency),
    )
    counted = [
        _window(counter, subject_of(counter.basis, countable), claim) for counter in policy_tool.subjects_needed()
    ]
    measures = policy_tool.counted_for_tenant
    if TENANT not in {each.subject for each in counted} and ("count" in measures or ("amount" in measures and claim)):
        # Nothing is counted for this call by it, but the call is counted for other tools'.
        counted.append(Window("", TENANT, 0))
    return counted


def _window(counter: Counter, subject: str, claim: Claim | None) -> Window:
    takes = 1 if counter.of == "count" else claim.amount if claim else 0
    return Window(
        counter.name,
        subject,
        counter.window_seconds,
        room=None if counter.max is None else counter.max - takes,
        of_amounts=counter.of == "amount",
        trips=counter.trips,
        unasked=counter.unasked,
    )


def counted(policy_tool: PolicyTool | None, reads: Reads) -> tuple[dict[str, int], dict[str, Usage]]:
    """(totals, usage) by name, from what the transaction read."""
    totals: dict[str, int] = {}
    usage = {PARKED_PER_AGENT: Usage(reads.parked_by_agent), PARKED_PER_TENANT: Usage(reads.parked)}
    if policy_tool is None:
        return totals, usage
    for counter in policy_tool.totals:
        used = reads.usage[counter.name]
        totals[counter.name] = used.amount if counter.of == "amount" else used.count
    for limit in policy_tool.limits:
        used = reads.usage[limit.name]
        retry_after = None
        if limit.window is not None and used.in_the_way is not None:
            frees_at = used.in_the_way + timedelta(seconds=limit.window)
            retry_after = max(1, int((frees_at - reads.now).total_seconds()) + 1)
        usage[limit.name] = Usage(used.amount if limit.of == "amount" else used.count, retry_after)
    if policy_tool.breaker is not None:
        usage[BREAKER] = Usage(reads.usage[BREAKER].count)
    return totals, usage


def uses(claim: Claim | None, windows: Sequence[Window], *, asked: bool) -> list[tuple[str, int]]:
    """(subject, amount) that a call takes; `asked`: it waits for a person first."""
    amount = claim.amount if claim else 0
    subjects = {window.subject for window in windows if not (asked and window.unasked)} | (
        {claim.resource} if claim else set[str]()
    )
    return [(subject, amount) for subject in sorted(subjects)]
