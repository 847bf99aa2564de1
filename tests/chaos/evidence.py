"""What the checker judges by: the outside's own record, the exported ledger, the agents' and approvers' own logs.

Read as plain JSON: nothing of the service's code has a part in it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

import yaml

from tests.chaos.journal import Line, lines

GIVEN_BACK = ("failed", "canceled")
"""States of a refund in which the money is the merchant's again."""


def instant(text: str) -> datetime:
    return datetime.fromisoformat(text)


@dataclass(frozen=True)
class Effect:
    """A refund that happened, as the gateway lists it under `_effects`."""

    refund_id: str
    payment_id: str
    amount: int
    currency: str
    idempotency_key: str | None
    operation_id: str | None
    status: str
    at: str

    @property
    def stands(self) -> bool:
        return self.status not in GIVEN_BACK


@dataclass(frozen=True)
class Operation:
    """A change of an order that happened, as the store lists it with the order."""

    order_id: str
    operation_id: str | None
    kind: str


@dataclass(frozen=True)
class Event:
    """One event of a call, decrypted."""

    n: int
    at: str
    type: str
    body: dict[str, Any]
    previous: str
    hash: str


@dataclass(frozen=True)
class Call:
    """One call of the exported ledger."""

    request_id: str
    tenant: str
    run_id: str
    tool: str
    status: str
    code: str
    alerts: tuple[str, ...]
    chain_holds: bool
    events: tuple[Event, ...]

    def bodies(self, type_: str) -> list[dict[str, Any]]:
        return [event.body for event in self.events if event.type == type_]

    def first(self, type_: str) -> Event | None:
        return next((event for event in self.events if event.type == type_), None)

    @property
    def proposed(self) -> dict[str, Any]:
        return self.bodies("call.proposed")[0]["call"]

    @property
    def arguments(self) -> dict[str, Any]:
        return self.proposed["arguments"]

    @property
    def proposed_at(self) -> datetime:
        return instant(self.events[0].at)

    @property
    def intents(self) -> list[dict[str, Any]]:
        """The effects that it was about to send, in order."""
        return [body["effect"] for body in self.bodies("effect.intended")]

    @property
    def told(self) -> set[str]:
        """Every status that it settled in: more than one when the effect was undone, or appeared, later."""
        return {body["status"] for body in self.bodies("call.settled")}


@dataclass(frozen=True)
class Limits:
    """What the policy of the run allows: refunds a run and an hour, and cents that need no person, and only one."""

    per_run: int
    per_hour: int
    threshold: int
    four_eyes: int

    @classmethod
    def of(cls, policy: Path) -> "Limits":
        refund = yaml.safe_load(policy.read_text(encoding="utf-8"))["tools"]["issue_refund"]
        limits = {limit["name"]: limit["max"] for limit in refund["limits"]}
        cents = refund["thresholds"]
        run, hour = limits["refunds_per_run"], limits["refunds_per_hour"]
        return cls(run, hour, cents["approval_cents"], cents["four_eyes_cents"])


@dataclass(frozen=True)
class Evidence:
    """Everything together. `captured` is cents by payment and by order (which has one payment), from the orders
    that the agents' log says were made."""

    effects: Sequence[Effect]
    operations: Sequence[Operation]
    calls: Sequence[Call]
    agents: Sequence[Line]
    people: Sequence[Line]
    limits: Limits
    captured: dict[str, int] = field(default_factory=dict[str, int])

    @classmethod
    def of(cls, folder: Path) -> "Evidence":
        """Read what a run left in its folder. Raises ValueError for an export that was cut off."""
        agents = list(lines(folder / "agents.jsonl"))
        return cls(
            effects=[Effect(**each) for each in lines(folder / "effects.jsonl")],
            operations=[Operation(**each) for each in lines(folder / "operations.jsonl")],
            calls=list(_calls(folder / "ledger.jsonl")),
            agents=agents,
            people=list(lines(folder / "people.jsonl")),
            limits=Limits.of(folder / "policy.yaml"),
            captured={
                line[name]: line["captured"]
                for line in agents
                if line["kind"] == "order"
                for name in ("payment_id", "order_id")
            },
        )


def _calls(file: Path) -> Iterator[Call]:
    for count, line in enumerate(lines(file)):
        if line["record"] == "end":
            if line["calls"] != count:
                raise ValueError(f"the export has {count} of {line['calls']} calls")
            return
        yield call_of(line)
    raise ValueError("the export was cut off")


def call_of(line: Line) -> Call:
    """A call from its line of the export."""
    names = ("request_id", "tenant", "run_id", "tool", "status", "code")
    events = [Event(**{name: each[name] for name in Event.__dataclass_fields__}) for each in line["events"]]
    return Call(
        **{name: line[name] for name in names},
        alerts=tuple(line["alerts"]),
        chain_holds=line["chain"]["holds"],
        events=tuple(events),
    )
