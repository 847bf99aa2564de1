"""A candidate beside the policy in force: it is asked about the same calls on the same reads, and what it says is
written down. Nothing comes of it, and nothing that is wrong with it is of any consequence."""

from dataclasses import replace

from activities.counting import counted
from activities.deciding import Proposed, decide_read, evaluate, windows_for
from ledger.admission import Reads, Window
from policy.model import Policy
from schemas.calls import Call, RunFacts
from schemas.decisions import PolicyDecision, ShadowDecision
from tools.catalog import Entry

_OWN = "shadow/"
ERROR = "error"
"""In the place of a rule: the candidate could not be asked."""


def windows_beside(candidate: Policy | None, proposed: Proposed) -> list[Window]:
    """What to count for the candidate, under names of its own. What the policy in force does not count by has no uses
    in the ledger yet, and is 0."""
    if candidate is None:
        return []
    try:
        windows = windows_for(candidate.tool(proposed.call.tool), proposed)
    except Exception:  # noqa: BLE001 - a candidate never fails a call; `said` writes the error down
        return []
    return [replace(each, name=f"{_OWN}{each.name}") for each in windows if each.name]


def said(candidate: Policy | None, proposed: Proposed, run: RunFacts, reads: Reads) -> ShadowDecision | None:
    """What the candidate would have said; None where there is none, or no policy is asked."""
    if candidate is None or reads.switched_off is not None:
        return None
    try:
        own = {name.removeprefix(_OWN): used for name, used in reads.usage.items() if name.startswith(_OWN)}
        totals, usage = counted(candidate.tool(proposed.call.tool), replace(reads, usage=own))
        return _written(evaluate(candidate, proposed, run, totals, usage, reads.reserved))
    except Exception:  # noqa: BLE001 - whatever is wrong with a candidate is its own matter
        return _failed(candidate)


def said_of_read(candidate: Policy | None, call: Call, entry: Entry, run: RunFacts) -> ShadowDecision | None:
    """The same of a call that changes nothing."""
    if candidate is None:
        return None
    try:
        return _written(decide_read(candidate, call, entry, run))
    except Exception:  # noqa: BLE001 - as above
        return _failed(candidate)


def _written(decision: PolicyDecision) -> ShadowDecision:
    return ShadowDecision(
        policy_version=decision.policy_version, verdict=decision.verdict, rule=decision.rule, code=decision.code
    )


def _failed(candidate: Policy) -> ShadowDecision:
    return ShadowDecision(policy_version=candidate.version, verdict=None, rule=ERROR)
