"""Evidence in which everything holds, to be spoiled one thing at a time by the checker's tests."""

from dataclasses import replace
from typing import Any

from tests.chaos.evidence import Call, Effect, Event, Evidence, Limits, Operation

LIMITS = Limits(per_run=2, per_hour=4, threshold=20_000, four_eyes=40_000)
_AT = "2026-11-30T12:00:{:02}.000000Z"
_TOOL = "issue_refund"


def events(*told: tuple[str, dict[str, Any]], minute: int = 0) -> tuple[Event, ...]:
    """Events in one chain, a second apart."""
    return tuple(
        Event(n, _AT.format(n).replace("12:00", f"12:{minute:02}"), type_, body, f"hash {n - 1}", f"hash {n}")
        for n, (type_, body) in enumerate(told, 1)
    )


def refund(name: str, *, amount: int = 900, run_id: str = "run_1", approved: bool = False, minute: int = 0) -> Call:
    """An executed refund: `act_NAME` of the operation `op_NAME` on the payment `pay_NAME`."""
    arguments = {"order_id": f"ord_{name}", "amount_cents": amount, "idempotency_key": f"key of {name}"}
    granted = [("approval.granted", {"approval_id": f"apr_{name}"})] if approved else []
    effect = {
        "operation_id": f"op_{name}",
        "gateway_key": f"gateway key of {name}",
        "intended_at": _AT.format(3).replace("12:00", f"12:{minute:02}"),
        "target": {"payment_id": f"pay_{name}", "amount_cents": amount, "currency": "USD"},
    }
    told = events(
        ("call.proposed", {"call": {"arguments": arguments}}),
        ("call.decided", {}),
        *granted,
        ("effect.intended", {"effect": effect}),
        ("effect.confirmed", {}),
        ("call.settled", {"status": "executed"}),
        minute=minute,
    )
    return Call(f"act_{name}", "default", run_id, _TOOL, "executed", "OK", (), True, told)


def refused(name: str, code: str = "REFUND_EXCEEDS_PAID") -> Call:
    """A refund that was refused."""
    call = refund(name)
    told = events(*((each.type, each.body) for each in call.events[:2]), ("call.settled", {"status": "refused"}))
    return replace(call, status="refused", code=code, events=told)


def unknown(name: str, *, review: bool = True, alerts: tuple[str, ...] = ("needs_review",)) -> Call:
    """A refund whose outcome nobody knows, in review."""
    call = refund(name)
    requested = [("review.requested", {})] if review else []
    told = events(*((each.type, each.body) for each in call.events[:3]), ("effect.unknown", {}), *requested)
    return replace(call, status="outcome_unknown", code="OUTCOME_UNKNOWN", alerts=alerts, events=told)


def cancellation(name: str) -> Call:
    """An executed cancellation of an order."""
    call = refund(name)
    return replace(call, tool="cancel_order")


def effect_of(call: Call) -> Effect:
    """The refund at the gateway that `call` made."""
    intent = call.intents[0]
    target = intent["target"]
    return Effect(
        refund_id=f"re of {call.request_id}",
        payment_id=target["payment_id"],
        amount=target["amount_cents"],
        currency="USD",
        idempotency_key=intent["gateway_key"],
        operation_id=intent["operation_id"],
        status="succeeded",
        at=_AT.format(30).replace("12:00", f"12:{intent['intended_at'][14:16]}"),
    )


def told(call: Call, **changes: Any) -> dict[str, Any]:
    """What the agent was told of its call in the end."""
    reply: dict[str, Any] = {"request_id": call.request_id, "status": call.status, "code": call.code}
    if call.status == "executed":
        reply["result"] = {"amount_cents": call.arguments["amount_cents"]}
    line = {"kind": "told", "run_id": call.run_id, "tool": call.tool, "arguments": call.arguments, "dry_run": False}
    return {**line, "http": 200, "reply": {**reply, **changes}}


def decision(call: Call, verdict: str = "approve", **changes: Any) -> dict[str, Any]:
    """What an approver was told of a decision."""
    approval_id = call.request_id.replace("act", "apr")
    line = {"kind": "decision told", "approval_id": approval_id, "request_id": call.request_id, "verdict": verdict}
    return {**line, "http": 200, **changes}


def sound() -> Evidence:
    """Two refunds of one run, an approved one of another, one in review, a refused one, a cancelled order."""
    calls = [
        refund("one"),
        refund("two", minute=1),
        refund("large", amount=30_000, run_id="run_2", approved=True),
        unknown("lost"),
        refused("much"),
        cancellation("order"),
    ]
    calls[3] = replace(calls[3], run_id="run_3")
    return Evidence(
        effects=[effect_of(call) for call in calls[:3]],
        operations=[Operation("ord_order", "op_order", "cancel")],
        calls=calls,
        agents=[told(call) for call in calls],
        people=[decision(calls[2])],
        limits=LIMITS,
        captured={"pay_one": 900, "pay_two": 1_000, "pay_large": 30_000, "pay_lost": 900, "ord_much": 899},
    )
