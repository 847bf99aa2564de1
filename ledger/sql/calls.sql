-- name: run_and_call
-- The run, the call of this workflow id when there is one already, the first switch that covers the run, or the tool by
-- these names, and is off, which key seals what is its customer's, and what the run did so far, by tool.
SELECT r.tenant, r.run_id, r.agent_id, r.actor_id, r.customer_id, r.owner, r.tools,
       r.revoked_at IS NULL AND o.revoked_at IS NULL AND r.expires_at > now() AS is_open, c.request_id,
       (SELECT min(s.name) FROM switches s WHERE s.tenant IN (r.tenant, '*') AND s.name = ANY(
           ARRAY['all', 'tenant:' || r.tenant, 'agent:' || r.agent_id, 'run:' || r.run_id] || $3::text[])) AS switched_off,
       (SELECT k.key_id FROM data_keys k
        WHERE k.tenant = r.tenant AND k.subject = r.customer_id AND k.retired_at IS NULL) AS key_id,
       clock_timestamp() AS now, d.*
FROM runs r
LEFT JOIN tokens o ON o.token_id = r.opened_with
LEFT JOIN calls c ON c.workflow_id = $2 AND c.tenant = r.tenant
CROSS JOIN LATERAL (
    SELECT coalesce(array_agg(tool), '{}') AS did_tools, coalesce(array_agg(asked_at), '{}') AS did_asked,
           coalesce(array_agg(executed_at), '{}') AS did_executed
    FROM doings WHERE doings.run_id = r.run_id
) d
WHERE r.run_id = $1

-- name: run_doings
-- What a run did so far, by tool.
SELECT tool, asked_at, executed_at FROM doings WHERE run_id = $1

-- name: request_of_workflow
-- Which call has this workflow id.
SELECT request_id FROM calls WHERE workflow_id = $1

-- name: lock_subjects
-- Serialises admissions that count against the same subjects; keys come sorted. None goes on while its customer ($2) is
-- erased. What follows in this transaction is the same each time: to plan it anew for every call, as Postgres would for
-- the few elements of its arrays, takes several times as long as the plan.
SELECT pg_advisory_xact_lock_shared($2)::text UNION ALL SELECT pg_advisory_xact_lock(k)::text FROM unnest($1::bigint[]) k
UNION ALL SELECT set_config('plan_cache_mode', 'force_generic_plan', true)

-- name: admission_reads
-- In one round trip: the clock, whether the call exists and its run was revoked, the switch that stops it, what other
-- live calls have reserved of the claimed resource (held, or spent since its facts were read), what waits for a person,
-- and what live calls took of each subject in its window; where that is more than there is room for, also the newest use
-- that does not fit beside those after it.
SELECT statement_timestamp() AS now, base.*, parked.*, w.i, u.count, coalesce(u.amount, 0)::bigint AS amount,
       f.at AS in_the_way
FROM (
    SELECT (SELECT request_id FROM calls WHERE workflow_id = $2) AS existing,
           EXISTS (SELECT FROM runs r LEFT JOIN tokens o ON o.token_id = r.opened_with
                   WHERE r.run_id = $10 AND (r.revoked_at IS NOT NULL OR o.revoked_at IS NOT NULL)) AS revoked,
           (SELECT min(s.name) FROM switches s WHERE s.tenant IN ($1, '*') AND s.name = ANY($11::text[]))
               AS switched_off,
           (SELECT coalesce(sum(h.amount), 0) FROM uses h
            WHERE h.tenant = $1 AND h.subject = $8 AND h.request_id <> $6 AND h.request_id <> ALL($12::text[])
              AND (h.state = 'held' OR (h.state = 'spent' AND h.changed_at >= $9)))::bigint AS reserved
) base
CROSS JOIN (
    SELECT count(*) AS parked, count(*) FILTER (WHERE agent_id = $16) AS parked_by_agent
    FROM approvals WHERE tenant = $1 AND status = 'open'
) parked
LEFT JOIN unnest($3::int[], $4::text[], $5::bigint[], $13::bigint[], $14::boolean[], $15::text[])
    AS w (i, subject, seconds, room, of_amounts, tripped) ON true
LEFT JOIN LATERAL (
    SELECT CASE WHEN w.subject = 'tenant' OR w.subject LIKE ANY ('{turn:%,together:%}') THEN '*' ELSE $7 END AS tool,
           greatest(CASE WHEN w.seconds IS NULL THEN '-infinity'::timestamptz
                         ELSE statement_timestamp() - make_interval(secs => w.seconds) END,
                    (SELECT max(t.at) FROM uses t
                     WHERE t.tenant = $1 AND t.subject = w.tripped AND t.tool = $7 AND t.state <> 'released')) AS since
) s ON true
LEFT JOIN LATERAL (
    -- Of what is added up, only the rest of the minute in which the window begins is counted use by use.
    SELECT CASE WHEN is_added_up(w.subject) THEN date_bin('1 minute', s.since, 'epoch') + interval '1 minute'
                ELSE 'infinity' END AS minutes_from
) b ON true
LEFT JOIN LATERAL (
    SELECT sum(parts.count)::bigint AS count, sum(parts.amount)::bigint AS amount
    FROM (SELECT count(*) AS count, sum(l.amount) AS amount
          FROM uses l
          WHERE l.tenant = $1 AND l.subject = w.subject AND l.tool = s.tool AND l.state <> 'released'
            AND l.request_id <> $6 AND l.at > s.since AND l.at < b.minutes_from
          UNION ALL
          SELECT coalesce(sum(m.count), 0), sum(m.amount)
          FROM uses_by_minute m
          WHERE m.tenant = $1 AND m.subject = w.subject AND m.tool = s.tool AND m.minute >= b.minutes_from) parts
) u ON true
LEFT JOIN LATERAL (
    SELECT max(k.at) AS at
    FROM (SELECT l.at, sum(CASE WHEN w.of_amounts THEN l.amount ELSE 1 END)
                           OVER (ORDER BY l.at DESC, l.request_id) AS kept
          FROM uses l
          WHERE CASE WHEN w.of_amounts THEN u.amount ELSE u.count END > w.room
            AND l.tenant = $1 AND l.subject = w.subject AND l.tool = s.tool AND l.state <> 'released'
            AND l.request_id <> $6 AND l.at > s.since) k
    WHERE k.kept > w.room
) f ON true

-- name: in_flight
-- What holds something of a resource and may be in its owner's own sum already.
SELECT c.request_id, c.operation_id FROM uses h JOIN calls c USING (request_id)
WHERE h.tenant = $1 AND h.subject = $2 AND h.request_id <> $3 AND c.operation_id IS NOT NULL
  AND (h.state = 'held' OR (h.state = 'spent' AND h.changed_at >= $4))

-- name: insert_call
-- A new call with its first events, its approval and what it takes.
WITH call AS (
    INSERT INTO calls (request_id, tenant, run_id, agent_id, customer_id, tool, workflow_id, arguments_digest, status,
                       code, verdict, rule, policy_version, approval_id, operation_id, intended_at, created_at,
                       updated_at, n, hash, key_id, details, trace_id)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $17, $18, $19, $20, $21, $30)
), event AS (
    INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash)
    SELECT $2, $1, e.n, e.type, e.version, $17, $20, e.body, e.previous, e.hash
    FROM unnest($22::int[], $23::text[], $24::smallint[], $25::bytea[], $26::bytea[], $27::bytea[])
        AS e (n, type, version, body, previous, hash)
)
INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)
SELECT $1, $2, CASE WHEN s.subject = 'tenant' OR s.subject LIKE ANY ('{turn:%,together:%}') THEN '*' ELSE $6 END, s.subject, s.amount, $17, $17, 'held'
FROM unnest($28::text[], $29::bigint[]) AS s (subject, amount)

-- name: mark_trip
-- When a breaker turned its switch off, which is from when its count begins again; and operators are told.
WITH alert AS (
    INSERT INTO alerts (tenant, request_id, kind, at) VALUES ($2, $1, $6, $5) RETURNING alert_id
), notice AS (
    INSERT INTO notices (tenant, topic, request_id, alert_id, tool, at, due_at)
    SELECT $2, 'alert', $1, alert_id, $3, $5, $5 FROM alert
)
INSERT INTO uses (request_id, tenant, tool, subject, amount, at, changed_at, state)
VALUES ($1, $2, $3, $4, 0, $5, $5, 'spent')

-- name: insert_approval
-- An approval; its group is told, and once more before the deadline; and the one above it, when it may decide as well.
-- Operators are told when it makes more than $22 of its agent wait, unless an alert that nobody has seen to says so.
WITH approval AS (
    INSERT INTO approvals (approval_id, request_id, tenant, tool, approvers, rule, policy_version, action_digest,
                           requested_at, expires_at, words, escalates_to, escalates_at, agent_id, requesters, amount,
                           currency, order_index, customer_id, key_id, card, status)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, 'open')
), alert AS (
    INSERT INTO alerts (tenant, request_id, kind, at)
    SELECT $3, $2, $23, $9
    WHERE (SELECT count(*) FROM (SELECT FROM approvals WHERE tenant = $3 AND agent_id = $14 AND status = 'open'
                                 LIMIT $22::integer + 1) others) = $22
      AND NOT EXISTS (SELECT FROM alerts a JOIN calls c USING (request_id)
                      WHERE a.tenant = $3 AND a.kind = $23 AND a.seen_at IS NULL AND c.agent_id = $14)
    RETURNING alert_id
)
INSERT INTO notices (tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, due_at)
SELECT $3, topic, $2, $1, NULL::bigint, $4, $5, $9, $9 FROM unnest(ARRAY['approval_requested', 'approval_expiring']) topic
UNION ALL
SELECT $3, 'approval_requested', $2, $1, NULL, $4, $12, $9, $13::timestamptz WHERE $12::text IS NOT NULL
UNION ALL
SELECT $3, 'alert', $2, NULL, alert_id, $4, NULL, $9, $9 FROM alert

-- name: lock_call
-- One call, locked: appends to it are in one order. The clock is the database's.
SELECT *, clock_timestamp() AS now FROM calls WHERE request_id = $1 FOR UPDATE

-- name: read_call
SELECT * FROM calls WHERE request_id = $1

-- name: advance_call
-- Append events and move the projections with them, in one statement, and with them what people are told.
WITH event AS (
    INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash)
    SELECT $2, $1, e.n, e.type, e.version, $3, $4, e.body, e.previous, e.hash
    FROM unnest($5::int[], $6::text[], $7::smallint[], $8::bytea[], $9::bytea[], $10::bytea[])
        AS e (n, type, version, body, previous, hash)
), approval AS (
    UPDATE approvals SET status = $11, closed_at = $3 WHERE approval_id = $12 AND $11::text IS NOT NULL
), use AS (
    UPDATE uses SET state = $13, changed_at = $3
    WHERE request_id = $1 AND $13::text IS NOT NULL AND subject NOT LIKE 'breaker:%'
), alert AS (
    INSERT INTO alerts (tenant, request_id, kind, at) SELECT $2, $1, $24, $3 WHERE $24::text IS NOT NULL
    RETURNING alert_id
), notice AS (
    INSERT INTO notices (tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, due_at)
    SELECT c.tenant, t.topic, c.request_id, t.approval_id, t.alert_id, c.tool, t.approvers, $3, $3
    FROM calls c CROSS JOIN LATERAL (
        SELECT 'alert' AS topic, NULL AS approval_id, alert_id, NULL AS approvers FROM alert
        UNION ALL
        SELECT 'approval_expired', approval_id, NULL, approvers FROM approvals
        WHERE approval_id = $12 AND $11 = 'expired'
        UNION ALL
        SELECT 'notice', NULL, NULL, NULL WHERE c.verdict = 'notify' AND $14 = 'executed' AND c.status <> 'executed'
    ) t
    WHERE c.request_id = $1
)
UPDATE calls SET status = $14, code = $15, operation_id = $16, intended_at = $17, updated_at = $3, n = $18, hash = $19,
                 key_id = $4, details = $20, remote_id = $21, review = $22, recheck_at = $23, approval_id = $25
WHERE request_id = $1

-- name: amend_uses
-- What a call takes once a person has changed it: of each of its subjects the same.
UPDATE uses SET amount = $2 WHERE request_id = $1

-- name: by_workflow_ids
-- Everything that waiters of this process wait for, in one look.
SELECT * FROM calls WHERE workflow_id = ANY($1::text[])

-- name: statuses_by_workflow_ids
-- What the waiters of a process ask for, again and again.
SELECT workflow_id, status FROM calls WHERE workflow_id = ANY($1::text[])

-- name: by_effect
-- The call whose effect has this operation id, or else this id at the remote system. Of one that was erased nothing can be
-- moved on.
SELECT request_id, tenant, workflow_id, tool, status FROM calls WHERE operation_id = $1 AND erased_at IS NULL
UNION ALL
SELECT request_id, tenant, workflow_id, tool, status FROM calls
WHERE remote_id = $2 AND erased_at IS NULL AND NOT EXISTS (SELECT FROM calls WHERE operation_id = $1)
LIMIT 1

-- name: to_recheck
-- Settled effects that are due to be looked at again, the longest due first.
SELECT request_id, tenant, workflow_id, tool, status FROM calls WHERE recheck_at < now() ORDER BY recheck_at LIMIT $1

-- name: in_review
-- What people have to settle, oldest first.
SELECT request_id, tenant, tool, status, code, verdict, rule, policy_version, agent_id, run_id, workflow_id, approval_id,
       review, intended_at, created_at, updated_at
FROM calls WHERE tenant = $1 AND review IS NOT NULL ORDER BY intended_at LIMIT $2

-- name: looked_up
-- Outcomes that are not known and are still being looked up, newest first.
SELECT request_id, tenant, tool, status, code, verdict, rule, policy_version, agent_id, run_id, workflow_id, approval_id,
       created_at, updated_at
FROM calls WHERE tenant = $1 AND status = 'outcome_unknown' AND review IS NULL ORDER BY created_at DESC LIMIT $2

-- name: visible_call
-- A call as another token of the same tenant and agent may see it.
SELECT * FROM calls WHERE request_id = $1 AND tenant = $2 AND agent_id = $3

-- name: open_calls
-- Calls that need a running workflow, oldest change first.
SELECT request_id, workflow_id, status, updated_at FROM calls
WHERE status IN ('in_progress', 'pending_approval', 'outcome_unknown') AND updated_at < now() - make_interval(secs => $1)
  AND (updated_at, request_id) > ($2, $3)
ORDER BY updated_at, request_id LIMIT $4

-- name: list_calls
SELECT request_id, tenant, tool, status, code, verdict, rule, policy_version, agent_id, run_id, workflow_id, approval_id,
       created_at, updated_at, erased_at IS NOT NULL AS erased
FROM calls WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR status = $2)
ORDER BY created_at DESC, request_id LIMIT $3

-- name: count_calls
-- Calls of a tenant by status: all that have not ended, and those that have among its newest $2.
SELECT status, count(*) AS count FROM (
    SELECT status FROM calls WHERE tenant = $1 AND status IN ('in_progress', 'pending_approval', 'outcome_unknown')
    UNION ALL
    SELECT status FROM (SELECT status FROM calls WHERE tenant = $1 ORDER BY created_at DESC, request_id LIMIT $2) newest
    WHERE status NOT IN ('in_progress', 'pending_approval', 'outcome_unknown')
) counted GROUP BY status

-- name: in_trace
-- The calls of a trace, in order.
SELECT request_id FROM calls WHERE trace_id = $1 ORDER BY created_at, request_id LIMIT $2

-- name: events_of
SELECT id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash
FROM events WHERE request_id = $1 ORDER BY n

-- name: seals_of_call
-- Which seal each event of a call is in.
SELECT e.n, s.number FROM events e JOIN seals s ON s.ids @> e.id WHERE e.request_id = $1
