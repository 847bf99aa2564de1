"""What verifying a ledger can find. Pure."""

from dataclasses import dataclass
from typing import Literal, get_args

Kind = Literal[
    "emptied",
    "rolled_back",
    "forked",
    "truncated",
    "swapped",
    "reordered",
    "rewritten",
    "invented",
    "missing",
    "altered",
    "incomplete",
    "unverifiable",
]
"""From the gravest on."""

EXIT: dict[Kind, int] = {
    "altered": 10,
    "missing": 11,
    "truncated": 12,
    "emptied": 13,
    "rewritten": 14,
    "reordered": 15,
    "swapped": 16,
    "forked": 17,
    "rolled_back": 18,
    "invented": 19,
    "unverifiable": 20,
    "incomplete": 21,
}
"""The exit status of `counterseal ledger verify`, by the gravest finding."""

MEANING: dict[Kind, str] = {
    "altered": "something is not as it was sealed",
    "missing": "events in the middle are gone",
    "truncated": "the newest events are gone",
    "emptied": "every event is gone",
    "rewritten": "events were replaced by others that hold together among themselves",
    "reordered": "events are in another order than they were sealed in",
    "swapped": "an event was moved to another tenant",
    "forked": "there are two ledgers of one name",
    "rolled_back": "this is an older copy of the ledger",
    "invented": "an event was put where all was sealed",
    "unverifiable": "a key is not there: nothing was shown to be wrong, and nothing to be right",
    "incomplete": "the export is not whole: that says nothing about the ledger",
}
_ORDER: dict[Kind, int] = {kind: n for n, kind in enumerate(get_args(Kind))}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong. `what` says where, in a sentence: ids, numbers and hashes, never a value of a person."""

    kind: Kind
    what: str


def gravest(findings: list[Finding]) -> Finding:
    """Which of them the exit status is of."""
    return min(findings, key=lambda each: _ORDER[each.kind])
