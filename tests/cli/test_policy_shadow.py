"""`counterseal policy shadow`: where a candidate would have decided otherwise, in sum and call by call."""

from datetime import UTC, datetime

from ledger.admission import Admitted
from ledger.ledger import Ledger
from schemas.codes import Code
from schemas.decisions import PolicyDecision, ShadowDecision
from schemas.events import CallDecided, CallProposed
from tests.cli.conftest import Run
from tests.ledger.refunds import Refund

CANDIDATE = "next@3f1c0a9be21d"


async def _decided(ledger: Ledger, shadow: ShadowDecision | None) -> str:
    call = Refund(1_000).proposed.call
    made = PolicyDecision(verdict="notify", rule="otherwise", because="b", policy_version="default@000000000000")
    decided = CallDecided(decision=made, facts={}, totals={}, shadow=shadow)
    own = ledger.of(call.binding.tenant).admissions
    await own.record(call, Admitted([CallProposed(call=call), decided]), datetime.now(UTC))
    return call.request_id


async def test_what_would_be_otherwise_is_shown(run: Run, ledger: Ledger) -> None:
    assert "No candidate was asked" in (await run("policy", "shadow")).out
    same = ShadowDecision(policy_version=CANDIDATE, verdict="notify", rule="otherwise")
    refused = ShadowDecision(policy_version=CANDIDATE, verdict="refuse", rule="much", code=Code.UNSAFE_CHAIN)
    failed = ShadowDecision(policy_version="other@000000000000", verdict=None, rule="error")
    for shadow in (None, same, same):
        await _decided(ledger, shadow)
    other = [await _decided(ledger, shadow) for shadow in (refused, failed)]
    shown = (await run("policy", "shadow")).out
    assert "Asked about 4 calls, and 2 of them would have been decided otherwise." in shown
    assert all(each in shown for each in (*other, "refuse UNSAFE_CHAIN (much)", "no answer (error)"))
    found = (await run("policy", "shadow", "--version", CANDIDATE, "--json")).json
    assert sorted(each["calls"] for each in found["sums"]) == [1, 2]
    (differing,) = found["differing"]
    assert (differing["request_id"], differing["would_be"]["verdict"]) == (other[0], "refuse")
    assert (await run("policy", "shadow", "--until", "2026-01-01", "--since", "2025-12-01")).out.startswith(
        "No candidate"
    )
