"""How fast recorded calls are decided again: `python -m tests.bench.backtest`.

Calls of a busy shop over ten days, each with its three events: refunds, changes of orders and look-ups, of 5,000
customers with a key each. Timed is all of it: read from Postgres, decrypt, parse, count, decide, compare; and the
decision alone. Prints a table, and exits 1 where less than 20,000 calls a second of this process's one core are
decided, or where the policy that decided them says anything else now.
"""

import asyncio
import json
import os
import random
import secrets
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import asyncpg
import msgspec
import typer
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from api.backtesting import backtest
from ledger.chain import body_context
from ledger.ledger import Ledger
from ledger.periods import Period
from policy.decide import decide, decide_read
from policy.load import DEFAULT_POLICY
from policy.model import BREAKER, PARKED_PER_AGENT, PARKED_PER_TENANT, Bound, Policy, Proposal, Usage
from runtime.cli.policy_backtest import uncollected
from runtime.policy import load_checked
from schemas.decisions import Claim, PolicyDecision
from schemas.events import CallDecided, CallProposed, CallSettled
from schemas.ids import new_request_id
from schemas.replies import Explanation
from tests.bench.servers import migrated_database
from tests.ledger.refunds import CATALOG, POLICY, Refund, facts, new_binding, open_ledger

TENANT, CUSTOMERS, AGENTS = "acme", 5_000, 40
LEAST = 20_000
THOROUGH = "the same policy, thoroughly"
_BATCH = 5_000
_BEGAN = datetime(2026, 3, 1, tzinfo=UTC)
_LASTS = timedelta(days=10)
_PERIOD = Period(_BEGAN, _BEGAN + timedelta(days=30))
_errors = Console(stderr=True)
_EVENTS = """
INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash)
SELECT e.*, sha256('0'), sha256('0')
FROM unnest($1::text[], $2::text[], $3::int[], $4::text[], $5::smallint[], $6::timestamptz[], $7::text[], $8::bytea[]) e
"""
_SHARES = {"issue_refund": 5, "lookup_orders": 3, "cancel_order": 1, "change_shipping_address": 1}
_Event = type[CallProposed] | type[CallDecided] | type[CallSettled]


def proposal(chosen: random.Random, tool: str, customer: str, amount: int) -> Proposal:
    """A call that was counted for somehow."""
    entry, policy_tool = CATALOG.get(tool), POLICY.tools[tool]
    assert entry is not None
    order = f"ord_{chosen.randrange(10**12):012}"
    arguments: dict[str, Any] = {"limit": 10}
    if tool != "lookup_orders":
        arguments = {"order_id": order, "idempotency_key": f"{chosen.getrandbits(128):032x}"}
    if tool != "issue_refund":
        known = {} if tool == "lookup_orders" else facts(payment_id="pay", order_id=order).model_dump(mode="json")
        return Proposal(tool, entry.manifest, arguments, known, usage=_usage(0, 0))
    arguments |= {
        "amount_cents": amount,
        "currency": "USD",
        "reason_code": "damaged",
        "note": "The parcel never arrived",
    }
    payment = f"pay_{chosen.getrandbits(48):012x}"
    known = facts(payment_id=payment, available=60_000, order_id=order).model_dump(mode="json")
    before = chosen.choice((0, 0, 0, 0, 0, 4_000, 18_000))
    limits = {each.name: Usage(before if each.of == "amount" else before // 4000) for each in policy_tool.limits}
    claim = Claim(resource=f"payment:{payment}", amount=amount, available=60_000, currency="USD")
    return Proposal(
        tool=tool,
        manifest=entry.manifest,
        arguments=arguments,
        facts=known,
        totals={each.name: before for each in policy_tool.totals},
        usage=limits | {BREAKER: Usage(3)} | _usage(2, 9),
        bound=Bound(claim, lambda _: Explanation()),
    )


def _usage(of_agent: int, of_tenant: int) -> dict[str, Usage]:
    return {PARKED_PER_AGENT: Usage(of_agent), PARKED_PER_TENANT: Usage(of_tenant)}


def bodies(asked: Proposal, made: PolicyDecision, request_id: str, customer: str) -> list[tuple[_Event, bytes]]:
    """The events of a call as JSON."""
    binding = new_binding(tenant=TENANT, agent_id=f"bot-{int(customer[4:]) % AGENTS}", customer_id=customer)
    call = {
        "request_id": request_id,
        "binding": binding.model_dump(),
        "tool": asked.tool,
        "tool_version": asked.manifest and asked.manifest.version,
        "arguments": asked.arguments,
        "arguments_digest": secrets.token_hex(32),
        "key_hash": secrets.token_hex(32),
        "workflow_id": f"call/{TENANT}/{asked.tool}/{secrets.token_hex(32)}",
        "trace_id": secrets.token_hex(16),
    }
    subjects = (f"customer:{customer}", "tool", "tenant", f"run:{binding.run_id}", f"order:{secrets.token_hex(6)}")
    claim = asked.bound.claim if asked.bound else None
    decided = {
        "decision": made.model_dump(mode="json"),
        "facts": asked.facts,
        "totals": asked.totals,
        "uses": dict.fromkeys(subjects, claim.amount) if claim and made.verdict != "refuse" else {},
        "usage": {name: each.used for name, each in asked.usage.items()},
        "claim": claim and claim.model_dump(),
        "run": {"tools": ["lookup_orders"], "touched": ["read_private"]},
    }
    status = {"refuse": "refused", "hold": "denied"}.get(made.verdict, "executed")
    settled = {"status": status, "code": "OK", "explanation": None, "result": {"orders": [], "count": 0}}
    return [
        (CallProposed, msgspec.json.encode({"type": "call.proposed", "call": call})),
        (CallDecided, msgspec.json.encode({"type": "call.decided", **decided})),
        (CallSettled, msgspec.json.encode({"type": "call.settled", **settled})),
    ]


async def fill(database: str, ledger: Ledger, calls: int, tools: list[str], done: Callable[[int], None]) -> None:
    """So many calls of these tools, decided by the built-in policy."""
    chosen, customers = random.Random(7), [f"cus_{n:05}" for n in range(CUSTOMERS)]
    await ledger.policies.begun(POLICY.version, POLICY.document.model_dump_json(exclude_defaults=True), by="bench")
    # One as any, for the row that says by which policy calls were decided.
    one = await Refund(100, binding=new_binding(tenant=TENANT)).admit(ledger)
    await ledger.system.execute("UPDATE calls SET created_at = $2 WHERE request_id = $1", one.request_id, _BEGAN)
    async with ledger.system.acquire() as connection:
        keys = {each: await ledger.keys.for_subject(connection, TENANT, each) for each in customers}
    writing = await asyncpg.connect(database, server_settings={"counterseal.tenant": "*"})
    try:
        rows: list[tuple[Any, ...]] = []
        for n in range(calls):
            customer, request_id = chosen.choice(customers), new_request_id()
            asked = proposal(chosen, chosen.choice(tools), customer, chosen.choice((1_500, 4_999, 9_000, 25_000)))
            writes = asked.manifest is not None and asked.manifest.writes
            made = (decide if writes else decide_read)(POLICY, asked)
            at = _BEGAN + _LASTS * n / calls
            for number, (event, body) in enumerate(bodies(asked, made, request_id, customer), 1):
                type_, key = event.model_fields["type"].default, keys[customer]
                sealed = key.seal(body, body_context(TENANT, request_id, number, type_, event.version))
                rows.append((TENANT, request_id, number, type_, event.version, at, key.key_id, sealed))
            if len(rows) >= _BATCH * 3 or n == calls - 1:
                await writing.execute(_EVENTS, *map(list, zip(*rows, strict=True)))
                rows.clear()
                done(n + 1)
        await writing.execute("VACUUM ANALYZE events")
    finally:
        await writing.close()


def candidates(folder: Path) -> dict[str, Policy]:
    """The policy itself, one with another threshold, and one that counts something else."""
    text = DEFAULT_POLICY.read_text()
    found = {"the same policy": POLICY, THOROUGH: POLICY}
    for name, change in {
        "another threshold": ("approval_cents: 20000", "approval_cents: 8000"),
        "another window": ("customer_24h: { per: customer, window: 24h", "customer_24h: { per: customer, window: 48h"),
    }.items():
        assert change[0] in text
        file = folder / "candidate.yaml"
        file.write_text(text.replace(*change))
        found[name] = load_checked(file, CATALOG)
    return found


def deciding() -> list[float]:
    """Microseconds of one decision, in the median of a hundred, again and again."""
    asked = proposal(random.Random(1), "issue_refund", "cus_1", 4_999)
    took: list[float] = []
    for _ in range(200):
        begun = time.perf_counter()
        for _ in range(100):
            decide(POLICY, asked)
        took.append((time.perf_counter() - begun) * 1e4)
    return took


async def measure(
    ledger: Ledger, candidate: Policy, calls: int, rounds: int, *, thorough: bool = False
) -> tuple[float, float, int]:
    """(seconds, seconds of this process's core, changes), times in the median."""
    took: list[tuple[float, float]] = []
    changes = 0
    for _ in range(rounds):
        begun, busy = time.perf_counter(), time.process_time()
        with uncollected():
            tally = (await backtest(ledger, CATALOG, candidate, _PERIOD, thorough=thorough)).tally
        took.append((time.perf_counter() - begun, time.process_time() - busy))
        assert tally.calls == calls, (tally.calls, tally.left)
        changes = tally.changes
    seconds, of_core = (statistics.median(each) for each in zip(*took, strict=True))
    return seconds, of_core, changes


def main(
    calls: Annotated[int, typer.Option(help="How many calls there are")] = 200_000,
    rounds: Annotated[int, typer.Option(help="How often each is measured")] = 3,
) -> None:
    asyncio.run(_main(calls, rounds))


async def _main(calls: int, rounds: int) -> None:
    table = Table("", "seconds", "calls/s", "calls/s of this core", "changes")
    result: dict[str, Any] = {"calls": calls, "cores": os.cpu_count(), "decide_us": statistics.median(deciding())}
    slowest, differs = float("inf"), 0
    async with migrated_database() as database, open_ledger(database) as ledger:
        with Progress(console=_errors, transient=True, disable=not _errors.is_terminal) as shown:
            task = shown.add_task("Writing calls", total=calls)
            tools = [tool for tool, share in _SHARES.items() for _ in range(share)]
            await fill(database, ledger, calls, tools, lambda done: shown.update(task, completed=done))
        folder = Path("artifacts")
        folder.mkdir(exist_ok=True)
        for name, candidate in candidates(folder).items():
            thorough = name == THOROUGH
            seconds, of_core, changes = await measure(ledger, candidate, calls, rounds, thorough=thorough)
            table.add_row(name, f"{seconds:.2f}", f"{calls / seconds:,.0f}", f"{calls / of_core:,.0f}", f"{changes:,}")
            result[name] = {"seconds": seconds, "core_seconds": of_core, "changes": changes}
            slowest = min(slowest, calls / of_core)
            differs += changes if candidate is POLICY else 0
        (folder / "candidate.yaml").unlink()
    Console().print(table)
    Console().print(f"One decision about a refund: {result['decide_us']:.1f} µs (p50)")
    (folder / "bench-backtest.json").write_text(json.dumps(result, indent=2))
    if differs:
        sys.exit(f"{differs} calls are decided otherwise by the very policy that decided them")
    if slowest < LEAST:
        sys.exit(f"fewer than {LEAST:,} calls a second of one core")


if __name__ == "__main__":
    typer.run(main)
