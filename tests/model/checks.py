"""What holds at every moment of every history. Each check raises AssertionError, and says what does not hold."""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

from ledger.chain import GENESIS, event_hash
from ledger.rebuilding import Compared
from ledger.records import SETTLED, CallRecord
from schemas.codes import REGISTRY
from schemas.events import ApprovalGranted, EffectIntended, Pruned
from tests.model.fold import fold
from tests.model.world import World

_GONE = ("failed", "canceled")
_CALLS = """
SELECT c.request_id, c.status, c.code, c.verdict, c.operation_id, c.remote_id, c.review, c.n, a.status AS approval,
       u.subject, u.amount, u.state
FROM calls c
LEFT JOIN approvals a USING (request_id, approval_id)
LEFT JOIN uses u ON u.request_id = c.request_id AND u.subject LIKE 'payment:%'
WHERE c.tenant = $1
"""
_WITHOUT_EFFECT = ("denied", "expired", "cancelled", "refused")


@dataclass
class Watch:
    """Remembers what was seen of a history."""

    world: World
    calls: dict[str, Any] = field(default_factory=dict[str, Any])
    """Rows by request id, as last seen."""
    sends: dict[str, int] = field(default_factory=dict[str, int])
    """How often each operation had been sent when its call was last seen settled."""
    deficits: dict[str, int] = field(default_factory=dict[str, int])

    async def look(self, *, outside: bool = False) -> None:
        """Check everything. `outside`: what just happened was not the service's doing."""
        world = self.world
        rows = await world.ground.ledger.database.tenant(world.tenant).fetch(_CALLS, world.tenant)
        now = {row["request_id"]: row for row in rows}
        assert len(now) == len(rows)
        assert set(self.calls) <= set(now), "a call is gone"
        effects = {each["operation_id"]: each for each in world.effects()}
        self._effects(now, effects)
        self._posts(now)
        for request_id, row in now.items():
            self._call(row, effects.get(row["operation_id"]))
            before = self.calls.get(request_id)
            if before is None or before["n"] != row["n"]:
                self._moved(before, row, effects.get(row["operation_id"]))
                await self._told(request_id)
        self._money(now, effects, outside=outside)
        self.calls = now

    def _effects(self, now: dict[str, Any], effects: dict[str, Any]) -> None:
        assert len(effects) == len(self.world.effects()), "an operation had two effects"
        operations = {row["operation_id"] for row in now.values()}
        assert set(effects) <= operations, "an effect is no call's"

    def _posts(self, now: dict[str, Any]) -> None:
        """Everything that was sent was some call's, always under one key and with one body."""
        sent: defaultdict[str, list[tuple[str, bytes]]] = defaultdict(list)
        for post in self.world.network.posts:
            sent[post.operation].append((post.key, post.body))
        calls = {row["operation_id"]: row for row in now.values() if row["operation_id"] is not None}
        for operation, posts in sent.items():
            assert len(set(posts)) == 1, "sent under two keys, or with two bodies"
            row = calls.get(operation)
            assert row is not None, "something was sent that is no call's"
            assert row["approval"] in (None, "granted"), f"sent, and {row['approval']}"
            assert (row["verdict"] == "hold") == (row["approval"] == "granted"), "sent without an approval"
            before = self.calls.get(row["request_id"])
            if before is not None and before["status"] in SETTLED:
                assert len(posts) == self.sends.get(operation, 0), "sent after it was settled"
            self.sends[operation] = len(posts)
        keys = [next(iter(posts))[0] for posts in sent.values()]
        assert len(keys) == len(set(keys)), "two calls were sent under one key"

    def _call(self, row: Any, effect: dict[str, Any] | None) -> None:
        status, state = row["status"], row["state"]
        if status in _WITHOUT_EFFECT:
            assert row["operation_id"] is None or status == "refused", f"intended, and {status}"
            assert state in (None, "released"), f"{status}, and its reservation is {state}"
        if status in ("outcome_unknown", "pending_approval", "in_progress"):
            assert state == "held", f"{status}, and its reservation is {state}"
        if status == "executed":
            assert state == "spent", f"executed, and its reservation is {state}"
            assert effect is not None, "executed, and there is no effect"
        if status == "failed":
            assert state in (None, "released"), f"failed, and its reservation is {state}"
        assert (row["review"] is None) or status == "outcome_unknown"

    def _moved(self, before: Any, row: Any, effect: dict[str, Any] | None) -> None:
        if before is None or before["status"] not in SETTLED or before["status"] == row["status"]:
            return
        change = (before["status"], row["status"])
        there = effect is not None and effect["status"] not in _GONE
        assert change in (("executed", "failed"), ("failed", "executed")), f"settled, and then {change}"
        assert there == (row["status"] == "executed"), f"{change}, and the effect is {effect}"

    async def _told(self, request_id: str) -> None:
        """What the agent is told is valid, and says what is so."""
        record = await self.world.own.calls.read(request_id)
        reply = record.reply()
        reply.to_json()
        assert reply.status == record.status == REGISTRY[record.code].status, (reply.status, record.status)
        if record.status == "executed":
            assert reply.result is not None
            assert reply.result["amount_cents"] == record.details.call.arguments["amount_cents"]

    def _money(self, now: dict[str, Any], effects: dict[str, Any], *, outside: bool) -> None:
        """Captured - refunded - reserved is never less than nothing, unless others made it so; and then never less than
        they made it."""
        reserved: defaultdict[str, int] = defaultdict(int)
        for row in now.values():
            effect = effects.get(row["operation_id"])
            is_there = effect is not None and effect["status"] not in _GONE
            if row["state"] == "held" and not is_there:
                reserved[row["subject"].removeprefix("payment:")] += row["amount"]
        for payment, captured in self.world.payments.items():
            refunded = self.world.refunded(payment)
            assert refunded <= captured, "the gateway refunded more than it has"
            deficit = max(0, refunded + reserved[payment] - captured)
            allowed = self.deficits.get(payment, 0)
            assert outside or deficit <= allowed, f"{refunded} + {reserved[payment]} of {captured}, {allowed} allowed"
            self.deficits[payment] = deficit

    async def at_the_end(self) -> None:
        """Every call ended, or is a person's and they were told; the ledger is sound, and agrees with the gateway."""
        world = self.world
        effects = {each["operation_id"]: each for each in world.effects()}
        for compared in await world.ground.ledger.rebuilding.of(list(self.calls)):
            assert compared == Compared(compared.request_id), "a projection is not the fold over the events"
        for request_id, row in self.calls.items():
            record = await world.own.calls.read(request_id)
            await self._sound(record, row)
            effect = effects.get(row["operation_id"])
            there = effect is not None and effect["status"] not in _GONE
            if record.status == "outcome_unknown":
                assert record.review is not None, "unknown, and no person's"
                assert "needs_review" in await world.own.alerts.of(request_id), "in review, and nobody was told"
            else:
                assert record.settled, f"it never ended: {record.status}"
                assert there == (record.status == "executed"), f"{record.status}, and the effect is {effect}"
            if there:
                assert effect is not None
                arguments = record.details.call.arguments
                assert effect["amount"] == arguments["amount_cents"]
                assert record.details.effect is not None
                assert effect["payment_id"] == record.details.effect.target["payment_id"]
                assert effect["idempotency_key"] == record.details.effect.gateway_key

    async def _sound(self, record: CallRecord, row: Any) -> None:
        """The chain holds, and its fold is the projection."""
        found = await self.world.own.calls.events(record.request_id)
        previous = GENESIS
        for n, (event_row, _) in enumerate(found, start=1):
            assert (event_row.n, event_row.previous) == (n, previous), "the chain is broken"
            assert event_hash(event_row) == event_row.hash, "an event is not what was hashed"
            previous = event_row.hash
        assert (record.head.n, record.head.hash) == (len(found), previous), "the head is not the last event"
        events = [event for _, event in found if not isinstance(event, Pruned)]
        folded = fold(events)
        assert (folded.status, folded.code) == (record.status, record.code.value), (folded, record.status, record.code)
        assert folded.approval == row["approval"], (folded.approval, row["approval"])
        assert folded.uses in (row["state"], None), (folded.uses, row["state"])
        assert folded.effect == record.details.effect
        assert (folded.remote_id, folded.review) == (record.remote_id, record.review)
        intents = [event.effect for event in events if isinstance(event, EffectIntended)]
        assert len({(each.gateway_key, each.operation_id, str(each.target)) for each in intents}) <= 1
        assert [each.attempt for each in intents] == list(range(1, len(intents) + 1))
        if row["verdict"] == "hold" and intents:
            first = next(n for n, event in enumerate(events) if isinstance(event, EffectIntended))
            assert any(isinstance(event, ApprovalGranted) for event in events[:first]), (
                "intended before it was approved"
            )
