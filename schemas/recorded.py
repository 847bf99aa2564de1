"""Decided calls as the ledger has them, for whoever reads very many of them.

These are the fields of `schemas.events` that deciding again needs, by the same names; the rest of a body is passed
over.
"""

from datetime import datetime

import msgspec

from schemas.replies import Verdict


class RecordedBinding(msgspec.Struct, gc=False):
    """Of `schemas.calls.Binding`."""

    tenant: str
    run_id: str
    agent_id: str
    customer_id: str


class RecordedCall(msgspec.Struct, gc=False):
    """Of `schemas.calls.Call`."""

    request_id: str
    binding: RecordedBinding
    tool: str
    tool_version: str
    arguments: msgspec.Raw
    """JSON, for many a call is not looked into."""
    trace_id: str | None = None


class RecordedDecision(msgspec.Struct, gc=False):
    """Of `schemas.decisions.PolicyDecision`."""

    verdict: Verdict
    rule: str
    policy_version: str
    rules: tuple[str, ...] = ()
    code: str | None = None
    people: int = 1
    approvers: str | None = None


class RecordedClaim(msgspec.Struct, gc=False):
    """`schemas.decisions.Claim`; `available` is what others had left."""

    resource: str
    amount: int
    available: int
    currency: str


class RecordedRun(msgspec.Struct, gc=False):
    """`schemas.calls.RunFacts`."""

    tools: tuple[str, ...] = ()
    touched: tuple[str, ...] = ()


class Proposed(msgspec.Struct, gc=False):
    """Of `call.proposed`."""

    call: RecordedCall


class Decided(msgspec.Struct, gc=False):
    """Of `call.decided`."""

    decision: RecordedDecision
    facts: msgspec.Raw
    totals: dict[str, int]
    uses: dict[str, int] = {}
    usage: dict[str, int] | None = None
    claim: RecordedClaim | None = None
    run: RecordedRun | None = None


class Settled(msgspec.Struct, gc=False):
    """Of `call.settled`."""

    status: str


class Amended(msgspec.Struct, gc=False):
    """Of `call.amended`."""

    amount: int | None = None


class Decision(msgspec.Struct, gc=False):
    """A call was decided at `at`. `complete`: with all that was counted for it, which older versions did not say."""

    at: datetime
    call: RecordedCall
    decided: Decided
    complete: bool


class Closed(msgspec.Struct, gc=False):
    """A person decided it, or nobody will any more."""

    at: datetime
    request_id: str
    granted: bool


class Ended(msgspec.Struct, gc=False):
    """It came to its end."""

    at: datetime
    request_id: str
    executed: bool


class Changed(msgspec.Struct, gc=False):
    """A person changed what it takes."""

    at: datetime
    request_id: str
    amount: int


Happened = Decision | Closed | Ended | Changed
"""What happened to calls, in the ledger's order."""

read_proposed = msgspec.json.Decoder(Proposed).decode
read_decided = msgspec.json.Decoder(Decided).decode
read_settled = msgspec.json.Decoder(Settled).decode
read_amended = msgspec.json.Decoder(Amended).decode
