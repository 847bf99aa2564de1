-- name: count_begun
-- How many calls the ledger has events of.
SELECT count(*) FROM events WHERE n = 1 AND type = 'call.proposed'

-- name: begun_after
-- Calls by their first event, in the order in which they began, after one of them.
SELECT id, request_id FROM events WHERE id > $1 AND n = 1 AND type = 'call.proposed' ORDER BY id LIMIT $2

-- name: without_events
-- What the projections have of calls that never began, after one of them.
SELECT request_id FROM (
    SELECT request_id FROM calls
    UNION SELECT request_id FROM approvals
    UNION SELECT request_id FROM decisions
    UNION SELECT request_id FROM uses
) projected
WHERE request_id > $1 AND NOT EXISTS (
    SELECT FROM events e WHERE e.request_id = projected.request_id AND e.n = 1 AND e.type = 'call.proposed')
ORDER BY request_id LIMIT $2

-- name: events_of_all
-- The events of these calls, each call's in order.
SELECT tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash
FROM events WHERE request_id = ANY($1::text[]) ORDER BY request_id, n

-- name: keys_left
-- Those of these keys that were not destroyed; what a process remembers of one counts for nothing here.
SELECT key_id FROM data_keys WHERE key_id = ANY($1::text[]) AND wrapped IS NOT NULL

-- name: calls
SELECT * FROM calls WHERE request_id = ANY($1::text[])

-- name: approvals
SELECT * FROM approvals WHERE request_id = ANY($1::text[])

-- name: decisions
SELECT * FROM decisions WHERE request_id = ANY($1::text[])

-- name: views
-- A view knows its call by its approval alone.
SELECT a.request_id, v.* FROM views v JOIN approvals a USING (approval_id) WHERE a.request_id = ANY($1::text[])

-- name: uses
SELECT * FROM uses WHERE request_id = ANY($1::text[])

-- name: lock_row
-- Whoever writes a call's projections has its row locked.
SELECT FROM calls WHERE request_id = $1 FOR UPDATE

-- name: make_room
-- What another call has that can be this one's alone: that row is wrong, and is mended in its own turn.
UPDATE calls SET workflow_id = CASE WHEN workflow_id = $2 THEN 'displaced/' || request_id ELSE workflow_id END,
                 operation_id = nullif(operation_id, $3)
WHERE request_id <> $1 AND (workflow_id = $2 OR operation_id = $3)

-- name: drop_approval
-- An approval that nobody was asked for, with what hangs on it.
WITH claim AS (
    DELETE FROM claims WHERE approval_id = $1
), decision AS (
    DELETE FROM decisions WHERE approval_id = $1
), view AS (
    DELETE FROM views WHERE approval_id = $1
)
DELETE FROM approvals WHERE approval_id = $1

-- name: drop_decision
DELETE FROM decisions WHERE decision_id = $1

-- name: drop_view
DELETE FROM views WHERE approval_id = $1 AND viewer = $2

-- name: drop_use
DELETE FROM uses WHERE request_id = $1 AND subject = $2

-- name: drop_call
DELETE FROM calls WHERE request_id = $1

-- name: put_call
INSERT INTO calls (request_id, tenant, run_id, agent_id, customer_id, tool, workflow_id, arguments_digest, status, code,
                   verdict, rule, policy_version, approval_id, operation_id, intended_at, remote_id, review, recheck_at,
                   trace_id, created_at, updated_at, n, hash, erased_at, key_id, details)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26,
        $27)
ON CONFLICT (request_id) DO UPDATE SET
    tenant = $2, run_id = $3, agent_id = $4, customer_id = $5, tool = $6, workflow_id = $7, arguments_digest = $8,
    status = $9, code = $10, verdict = $11, rule = $12, policy_version = $13, approval_id = $14, operation_id = $15,
    intended_at = $16, remote_id = $17, review = $18, recheck_at = $19, trace_id = $20, created_at = $21, updated_at = $22, n = $23,
    hash = $24, erased_at = $25, key_id = $26, details = $27

-- name: put_approval
INSERT INTO approvals (approval_id, request_id, tenant, tool, approvers, rule, policy_version, action_digest, requested_at,
                       expires_at, words, escalates_to, escalates_at, agent_id, requesters, amount, currency, order_index,
                       customer_id, status, closed_at, given, erased_at, key_id, card)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25)
ON CONFLICT (approval_id) DO UPDATE SET
    request_id = $2, tenant = $3, tool = $4, approvers = $5, rule = $6, policy_version = $7, action_digest = $8,
    requested_at = $9, expires_at = $10, words = $11, escalates_to = $12, escalates_at = $13, agent_id = $14,
    requesters = $15, amount = $16, currency = $17, order_index = $18, customer_id = $19, status = $20, closed_at = $21,
    given = $22, erased_at = $23, key_id = $24, card = $25

-- name: put_decision
INSERT INTO decisions (decision_id, approval_id, request_id, tenant, approver, verdict, decided_at, through, proof,
                       on_behalf_of, key_id, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
ON CONFLICT (decision_id) DO UPDATE SET
    approval_id = $2, request_id = $3, tenant = $4, approver = $5, verdict = $6, decided_at = $7, through = $8, proof = $9,
    on_behalf_of = $10, key_id = $11, body = $12

-- name: put_view
INSERT INTO views (approval_id, viewer, tenant, at) VALUES ($1, $2, $3, $4)
ON CONFLICT (approval_id, viewer) DO UPDATE SET tenant = $3, at = $4

-- name: put_use
INSERT INTO uses (request_id, subject, tenant, tool, amount, at, changed_at, state) VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (request_id, subject) DO UPDATE SET
    tenant = $3, tool = $4, amount = $5, at = $6, changed_at = $7, state = $8

-- name: lock_minutes
-- Of two who mend at once the second finds nothing left; whoever writes uses goes on.
SELECT pg_advisory_xact_lock(7262626265)

-- name: differing_minutes
-- How many sums by the minute are not what the uses come to.
SELECT count(*) FROM (
    SELECT FROM (
        SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch') AS minute, 1 AS count, amount
        FROM uses WHERE state <> 'released' AND is_added_up(subject)
        UNION ALL
        SELECT tenant, subject, tool, minute, -count, -amount FROM uses_by_minute) each
    GROUP BY tenant, subject, tool, minute HAVING sum(count) <> 0 OR sum(amount) <> 0) differing

-- name: mend_minutes
-- Adds to these sums what they lack, and so whatever is written meanwhile is not lost: how many there were.
WITH mended AS (
    INSERT INTO uses_by_minute AS m (tenant, subject, tool, minute, count, amount)
    SELECT tenant, subject, tool, minute, sum(count), sum(amount) FROM (
        SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch') AS minute, 1 AS count, amount
        FROM uses WHERE state <> 'released' AND is_added_up(subject)
        UNION ALL
        SELECT tenant, subject, tool, minute, -count, -amount FROM uses_by_minute) each
    GROUP BY 1, 2, 3, 4 HAVING sum(count) <> 0 OR sum(amount) <> 0 ORDER BY 1, 2, 3, 4
    ON CONFLICT (tenant, subject, tool, minute)
    DO UPDATE SET count = m.count + excluded.count, amount = m.amount + excluded.amount
    RETURNING 1
)
SELECT count(*) FROM mended
