"""Whether a run of the demo went as its script says, and whether the money moved exactly so. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from runtime.demo.agent import Played
from runtime.demo.client import Answer
from runtime.demo.script import Outcome

REFUND_TOOL = "issue_refund"
_REFUNDS_PATH = "/v1/refunds"


def differences(
    played: Sequence[Played], effects: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]
) -> list[str]:
    """One line for each thing that is not as it should be.

    `effects` and `requests` are the sandbox gateway's own records (`/_effects`, `/_requests`), of every run there was.
    """
    by_name = {each.step.name: each for each in played}
    found: list[str] = []
    for each in played:
        found += [f"{each.doing} ({each.step.name}): {line}" for line in _call(each, by_name)]
    found += _money(played, effects)
    for each in played:
        if each.step.looked_up:
            found += [f"{each.doing} ({each.step.name}): {line}" for line in _sent_once(each, effects, requests)]
    return found


def _call(played: Played, by_name: Mapping[str, Played]) -> list[str]:
    step, found = played.step, list[str]()
    found += _outcome("answered", played.answer, step.ends)
    if played.decided_by and step.then is not None:
        found += _outcome("ended", played.ended, step.then.ends)
    if played.verdict != step.verdict:
        found.append(f"the decision is {played.verdict or 'none'}, not {step.verdict}")
    if step.allowed is not None and dict(played.answer.allowed or {}) != dict(step.allowed):
        found.append(f"allowed is {played.answer.allowed}, not {dict(step.allowed)}")
    if step.same_call and step.same_key_as is not None:
        first = by_name[step.same_key_as].answer.request_id
        if played.answer.request_id != first:
            found.append("the repeat is another call than the first")
    if step.looked_up and not {"effect.unknown", "effect.inspected"} <= set(played.events):
        found.append("the outcome was not looked up")
    if step.dry_run and played.events:
        found.append("a dry run left something in the ledger")
    return found


def _outcome(when: str, answer: Answer, expected: Outcome) -> list[str]:
    if (answer.status, answer.code) == (expected.status, str(expected.code)):
        return []
    return [f"{when} {answer.status} {answer.code}, not {expected.status} {expected.code}: {answer.message}"]


def expected_refunds(played: Sequence[Played]) -> Counter[tuple[str, int, str]]:
    """(payment, minor units, currency) of every refund that was executed, each call once however often it was sent."""
    calls = {
        each.ended.request_id: each
        for each in played
        if each.step.tool == REFUND_TOOL and each.ended.status == "executed" and not each.step.dry_run
    }
    return Counter((each.payment, *_amount(each)) for each in calls.values())


def _amount(played: Played) -> tuple[int, str]:
    arguments = played.step.arguments
    return int(str(arguments["amount_cents"])), str(arguments["currency"])


def _money(played: Sequence[Played], effects: Sequence[Mapping[str, Any]]) -> list[str]:
    """The payments of this run must have been refunded by exactly what was executed, no more and no less."""
    payments = {each.payment for each in played if each.payment}
    happened = Counter(
        (str(effect["payment_id"]), int(effect["amount"]), str(effect["currency"]).upper())
        for effect in effects
        if effect["payment_id"] in payments and effect["status"] != "failed"
    )
    expected = expected_refunds(played)
    missing, surplus = expected - happened, happened - expected
    return [f"the gateway has no {_refund(refund, n)}" for refund, n in missing.items()] + [
        f"the gateway has {_refund(refund, n)} too many" for refund, n in surplus.items()
    ]


def _refund(refund: tuple[str, int, str], times: int) -> str:
    payment, amount, currency = refund
    return f"refund of {amount} {currency} minor units on {payment}" + (f" ({times} times)" if times > 1 else "")


def _sent_once(
    played: Played, effects: Sequence[Mapping[str, Any]], requests: Sequence[Mapping[str, Any]]
) -> list[str]:
    """A refund whose answer was lost must have reached the gateway in one request alone."""
    keys = {effect["idempotency_key"] for effect in effects if effect["payment_id"] == played.payment}
    posts = [
        request
        for request in requests
        if request["method"] == "POST" and request["path"] == _REFUNDS_PATH and request["idempotency_key"] in keys
    ]
    if len(posts) == 1:
        return []
    return [f"it was sent {len(posts)} times, not once"]
