"""How Postgres would run a query on a ledger of many calls: what it reads from one end to the other, and how much."""

import json
from collections.abc import Iterator
from typing import Any

import asyncpg

CALLS = 12_000
MANY = 500
"""Rows, of one table in one step, from which on a query is not bounded."""
KEPT_SMALL = frozenset(
    {
        "alembic_version",
        "attempts",
        "claims",
        "credentials",
        "decision_keys",
        "delegations",
        "grants",
        "identities",
        "leases",
        "passkeys",
        "policies",
        "policy_proposals",
        "policy_votes",
        "publications",
        "retention",
        "seal_keys",
        "sealing",
        "sessions",
        "switches",
        "users",
    }
)
"""Tables that grow with people and what they set up, not with what is asked of the service, or of which only what is
happening is kept."""

# One tenant, as in most installations, so that being a tenant's own narrows nothing down. Every second call was parked,
# and of those one in eight still waits.
_ROWS = """
CREATE TEMPORARY VIEW made AS
SELECT n, 'act_' || n AS request_id, 'apr_' || n AS approval_id, 'acme' AS tenant,
       'run_' || n / 3 AS run_id, 'bot-' || n % 40 AS agent_id, 'cus_' || n / 4 AS customer_id,
       CASE WHEN n % 5 = 0 THEN 'cancel_order' ELSE 'issue_refund' END AS tool, 'dk_' || n / 4 AS key_id,
       n % 2 = 0 AS parked, n % 16 = 0 AS waits, now() - ($CALLS - n) * interval '1 hour' AS at
FROM generate_series(1, $CALLS) n;

INSERT INTO runs (run_id, tenant, agent_id, actor_id, customer_id, tools, opened_by, expires_at, revoked_at)
SELECT DISTINCT ON (run_id) run_id, tenant, agent_id, 'user_17', customer_id, ARRAY[tool], 'runtime',
       at + interval '1 hour', NULL::timestamptz FROM made;
INSERT INTO tokens (token_id, hash, kind, tenant, principal, run_id, expires_at)
SELECT 'tok_' || run_id, sha256(run_id::bytea), 'run', tenant, agent_id, run_id, expires_at FROM runs;
INSERT INTO data_keys (key_id, tenant, subject, wrapped)
SELECT DISTINCT ON (key_id) key_id, tenant, customer_id, sha256('0') FROM made;
INSERT INTO calls (request_id, tenant, run_id, agent_id, customer_id, tool, workflow_id, arguments_digest, status, code,
                   verdict, rule, policy_version, approval_id, operation_id, intended_at, created_at, updated_at, n,
                   hash, key_id, details, remote_id, review, recheck_at, trace_id)
SELECT request_id, tenant, run_id, agent_id, customer_id, tool, 'call/' || request_id, repeat('0', 64),
       CASE WHEN waits THEN 'pending_approval' WHEN n % 100 = 1 THEN 'outcome_unknown'
            WHEN n % 400 = 3 THEN 'in_progress' ELSE 'executed' END,
       'OK', CASE WHEN parked THEN 'hold' ELSE 'free' END, 'some', 'p' || n % 5, CASE WHEN parked THEN approval_id END,
       CASE WHEN NOT waits THEN 'op_' || n END, CASE WHEN NOT waits THEN at END, at, at, 4, sha256('0'), key_id,
       convert_to(repeat('d', 300), 'UTF8'), CASE WHEN NOT waits THEN 're_' || n END,
       CASE WHEN n % 100 = 1 THEN 'stuck' END, CASE WHEN n % 20 = 3 THEN at + interval '30 days' END,
       repeat('e', 24) || n
FROM made;
INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash)
SELECT tenant, request_id, e.n, e.type, 3, at, key_id, convert_to(repeat('b', 100), 'UTF8'), sha256('0'), sha256('0')
FROM made, unnest(ARRAY['call.proposed', 'call.decided', 'effect.intended', 'call.settled'])
    WITH ORDINALITY e (type, n);
INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)
SELECT request_id, tenant, tool, s.kind || ':' || s.of, 100, at, at, CASE WHEN waits THEN 'held' ELSE 'spent' END
FROM made, LATERAL (VALUES ('customer', customer_id), ('order', n::text)) s (kind, of);
INSERT INTO approvals (approval_id, request_id, tenant, tool, status, approvers, rule, policy_version, action_digest,
                       requested_at, expires_at, closed_at, key_id, card, words, agent_id, requesters, amount, currency,
                       order_index, customer_id)
SELECT approval_id, request_id, tenant, tool, CASE WHEN waits THEN 'open' ELSE 'granted' END, 'finance', 'some', 'p1',
       repeat('0', 64), at, at + interval '1 day', CASE WHEN NOT waits THEN at + interval '1 hour' END, key_id,
       convert_to(repeat('c', 400), 'UTF8'), 90, agent_id, ARRAY[agent_id], n, 'USD', 'k:' || n, customer_id
FROM made WHERE parked;
INSERT INTO decisions (decision_id, approval_id, request_id, tenant, approver, verdict, decided_at, key_id, body)
SELECT 'dec_' || n, approval_id, request_id, tenant, 'ana', 'approve', at + interval '1 hour', key_id, sha256('0')
FROM made WHERE parked AND NOT waits;
INSERT INTO views (approval_id, viewer, tenant, at) SELECT approval_id, 'ana', tenant, at FROM made WHERE parked;
INSERT INTO alerts (tenant, request_id, kind, at, seen_at)
SELECT tenant, request_id, 'outcome_unknown', at, CASE WHEN n % 40 <> 0 THEN at END FROM made WHERE n % 4 = 1;
INSERT INTO notices (tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, due_at, channel, state,
                     closed_at)
SELECT tenant, 'approval_requested', request_id, approval_id, n, tool, 'finance', at, at, 'chat',
       CASE WHEN n % 80 = 0 THEN 'sending' WHEN n % 60 = 0 THEN 'undelivered' ELSE 'delivered' END,
       CASE WHEN n % 80 <> 0 THEN at END
FROM made WHERE parked;
INSERT INTO diagnostics (request_id, tenant, at, key_id, body)
SELECT request_id, tenant, at, key_id, convert_to(repeat('a', 300), 'UTF8') FROM made WHERE n % 4 = 1;
INSERT INTO sign_ins (hash, nonce, verifier, return_to, expires_at)
SELECT sha256(request_id::bytea), 'some', 'some', '/', now() + n * interval '1 s' FROM made WHERE n % 4 = 1;
INSERT INTO passkey_nonces (nonce, tenant, username, purpose, expires_at)
SELECT request_id, tenant, 'ana', 'some', now() + n * interval '1 s' FROM made WHERE n % 4 = 1;
INSERT INTO seals (number, ids, size, peaks, checkpoint)
SELECT n, int8multirange(int8range((n - 1) * 16 + 1, n * 16 + 1)), n * 16, sha256('0'), repeat('s', 300)
FROM generate_series(1, $CALLS / 4 - 5) n;
"""


async def fill(superuser: str) -> None:
    """Make the rows of a ledger that was used for a year, in bulk and with nothing in them that opens."""
    connection = await asyncpg.connect(superuser, server_settings={"session_replication_role": "replica"})
    try:
        # A view cannot take the count as a parameter.
        await connection.execute(_ROWS.replace("$CALLS", str(CALLS)))
        await connection.execute("VACUUM ANALYZE")
    finally:
        await connection.close()


async def plan_of(connection: Any, query: str, given: tuple[object, ...] | None) -> dict[str, Any]:
    """The plan for these parameters; without any, the one for whatever they may be."""
    if given is not None:
        return _plan(await connection.fetchval(f"EXPLAIN (FORMAT JSON) {query}", *given))
    await connection.execute(f"SET plan_cache_mode = force_generic_plan; PREPARE planned AS {query}")
    try:
        count = await connection.fetchval(
            "SELECT coalesce(array_length(parameter_types, 1), 0) FROM pg_prepared_statements WHERE name = 'planned'"
        )
        nulls = f"({', '.join(['NULL'] * count)})" if count else ""
        return _plan(await connection.fetchval(f"EXPLAIN (FORMAT JSON) EXECUTE planned{nulls}"))
    finally:
        await connection.execute("DEALLOCATE planned")


def _plan(explained: str) -> dict[str, Any]:
    return json.loads(explained)[0]["Plan"]


def unbounded(plan: dict[str, Any]) -> Iterator[str]:
    """What a plan reads of tables that grow: all of one, or more than MANY rows that no LIMIT ends."""
    return _unbounded(plan, limited=False)


_STEPS_THAT_READ_ALL = ("Sort", "Aggregate", "Hash", "Materialize", "SetOp", "WindowAgg", "Unique", "Group")


def _unbounded(plan: dict[str, Any], *, limited: bool) -> Iterator[str]:
    kind, table = plan["Node Type"], plan.get("Relation Name")
    grows = table is not None and table not in KEPT_SMALL and not table.startswith("pg_")
    if grows and kind != "ModifyTable":
        if kind == "Seq Scan":
            yield f"all of {table}"
        elif not limited and plan["Plan Rows"] > MANY:
            yield f"{plan['Plan Rows']} rows of {table}"
    limited = kind == "Limit" or (limited and kind not in _STEPS_THAT_READ_ALL)
    for each in plan.get("Plans", ()):
        yield from _unbounded(each, limited=limited)
