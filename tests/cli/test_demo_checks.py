"""The demo's judgement of itself: content with a run as the script has it, and with nothing else."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runtime.demo.agent import Played
from runtime.demo.checks import differences, expected_refunds
from runtime.demo.client import Answer
from runtime.demo.script import SCRIPT, Outcome, Step


@dataclass
class Night:
    """One run of the demo: the steps as they went, and the gateway's own record."""

    played: list[Played]
    effects: list[dict[str, Any]]
    requests: list[dict[str, Any]]

    def differences(self) -> list[str]:
        return differences(self.played, self.effects, self.requests)

    def at(self, name: str) -> int:
        return next(n for n, each in enumerate(self.played) if each.step.name == name)

    def change(self, name: str, **changes: Any) -> None:
        n = self.at(name)
        self.played[n] = replace(self.played[n], **changes)

    def answer(self, name: str, **changes: Any) -> None:
        n = self.at(name)
        answer = self.played[n].answer.model_copy(update=changes)
        self.played[n] = replace(self.played[n], answer=answer, ended=answer)

    def effect(self, name: str) -> dict[str, Any]:
        payment = self.played[self.at(name)].payment
        return next(effect for effect in self.effects if effect["payment_id"] == payment)


def _answer(step: Step, outcome: Outcome, request_id: str) -> Answer:
    allowed = dict(step.allowed) if step.allowed else None
    return Answer(
        status=outcome.status, code=outcome.code, request_id=request_id, message="A sentence. More.", allowed=allowed
    )


def _played(step: Step) -> Played:
    request_id = f"act_{step.same_key_as if step.same_call else step.name}"
    answer = _answer(step, step.ends, request_id)
    ended = _answer(step, step.then.ends, request_id) if step.then else answer
    events = ("call.proposed", "effect.unknown", "effect.inspected") if step.looked_up else ("call.proposed",)
    return Played(
        step=step,
        subject=f"ord_{step.order}",
        payment=f"pay_{step.order}" if step.order else "",
        answer=answer,
        ended=ended,
        verdict=step.verdict,
        because="",
        events=() if step.dry_run else events,
        decided_by="approved by ana" if step.then else "",
    )


def _effect(payment: str, amount: int, key: str) -> dict[str, Any]:
    return {
        "payment_id": payment,
        "amount": amount,
        "currency": "USD",
        "idempotency_key": key,
        "status": "succeeded",
    }


def _post(key: str) -> dict[str, Any]:
    return {"method": "POST", "path": "/v1/refunds", "idempotency_key": key, "done": "created", "status": 200}


@pytest.fixture
def night() -> Night:
    """As it should be, on a gateway that has seen other nights too."""
    played = [_played(step) for step in SCRIPT]
    refunds = expected_refunds(played)
    effects = [_effect(payment, amount, f"key_{payment}") for payment, amount, _ in refunds]
    others = [_effect("pay_of_another_night", 4999, "key_other"), _effect("pay_of_another_night", 4999, "key_other2")]
    requests = [_post(effect["idempotency_key"]) for effect in [*effects, *others]]
    return Night(played, [*effects, *others], requests)


def test_a_run_as_the_script_has_it_differs_in_nothing(night: Night) -> None:
    assert night.differences() == []


def test_the_script_moves_money_four_times(night: Night) -> None:
    # 49.99 once although sent twice, 312.40 and 24.00 approved, 35.00 looked up; not the denied, refused, dry ones.
    assert sorted(amount for _, amount, _ in expected_refunds(night.played).elements()) == [2400, 3500, 4999, 31240]


Break = Callable[[Night], None]

BREAKS: dict[str, tuple[Break, str]] = {
    "a refund happened twice": (lambda night: night.effects.append(night.effect("small")), "4999 USD minor units"),
    "a looked-up refund happened twice": (lambda night: night.effects.append(night.effect("lost")), "too many"),
    "a refund did not happen": (lambda night: night.effects.remove(night.effect("large")), "has no refund of 31240"),
    "another amount was refunded": (lambda night: night.effect("flagged").update(amount=2401), "refund of 2401"),
    "another currency was refunded": (lambda night: night.effect("small").update(currency="EUR"), "4999 EUR"),
    "a refund failed later": (lambda night: night.effect("small").update(status="failed"), "has no refund of 4999"),
    "a denied refund happened": (
        lambda night: night.effects.append(_effect(night.played[night.at("injected")].payment, 25900, "k")),
        "refund of 25900",
    ),
    "a dry run happened": (
        lambda night: night.effects.append(_effect(night.played[night.at("dry")].payment, 48900, "k")),
        "refund of 48900",
    ),
    "a lost answer was sent again": (
        lambda night: night.requests.append(_post(night.effect("lost")["idempotency_key"])),
        "sent 2 times",
    ),
    "a lost answer was not looked up": (lambda night: night.change("lost", events=("call.proposed",)), "looked up"),
    "the repeat was a second call": (lambda night: night.answer("again", request_id="act_2"), "another call"),
    "the injected note was believed": (
        lambda night: night.answer("injected", status="executed", code="OK"),
        "answered executed OK, not pending_approval PENDING_APPROVAL",
    ),
    "a refusal has another code": (lambda night: night.answer("over", code="RATE_LIMITED"), "REFUND_EXCEEDS_PAID"),
    "the limit is not told": (lambda night: night.answer("over", allowed=None), "allowed is None"),
    "the limit is another": (lambda night: night.answer("over", allowed={"max_amount_cents": 5000}), "4999"),
    "the policy decided otherwise": (lambda night: night.change("cancel", verdict="notify"), "is notify, not free"),
    "a denial did not hold": (
        lambda night: night.change("injected", ended=night.played[night.at("small")].ended),
        "ended executed OK, not denied USER_DENIED",
    ),
    "an approved call stayed open": (
        lambda night: night.change("large", ended=night.played[night.at("large")].answer),
        "ended pending_approval",
    ),
    "the dry run left something": (lambda night: night.change("dry", events=("call.proposed",)), "left something"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_what_went_wrong_is_found(night: Night, name: str) -> None:
    break_, found = BREAKS[name]
    break_(night)
    assert any(found in line for line in night.differences())
