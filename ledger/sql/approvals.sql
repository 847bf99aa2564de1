-- name: insert_decision
-- One decision a person and approval; the first wins.
INSERT INTO decisions (decision_id, approval_id, request_id, tenant, approver, verdict, decided_at, key_id, body)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT DO NOTHING RETURNING decision_id

-- name: lock_approval
-- One approval, locked.
SELECT * FROM approvals WHERE approval_id = $1 FOR UPDATE

-- name: undelivered_decisions
-- Decisions whose call has not moved on since: to be delivered again.
SELECT d.*, c.workflow_id FROM decisions d JOIN calls c USING (request_id)
WHERE c.status = 'in_progress' AND c.intended_at IS NULL AND d.verdict = 'approve'
  AND d.decided_at < now() - make_interval(secs => $1)
ORDER BY d.decided_at LIMIT 500

-- name: read_approval
-- One approval of a tenant.
SELECT * FROM approvals WHERE approval_id = $1 AND tenant = $2

-- name: open_approvals
-- What waits, oldest deadline first, after a cursor.
SELECT * FROM approvals
WHERE tenant = $1 AND status = 'open' AND (expires_at, approval_id) > ($2, $3) AND ($4::text IS NULL OR tool = $4)
ORDER BY expires_at, approval_id LIMIT $5

-- name: closed_approvals
-- What was decided, newest first, after a cursor.
SELECT * FROM approvals
WHERE tenant = $1 AND status <> 'open' AND (closed_at, approval_id) < ($2, $3) AND ($4::text IS NULL OR tool = $4)
ORDER BY closed_at DESC, approval_id DESC LIMIT $5

-- name: count_open
-- How many wait, by tool.
SELECT tool, count(*) AS count FROM approvals WHERE tenant = $1 AND status = 'open' GROUP BY tool ORDER BY tool

-- name: approval_request
-- Which call an approval of a tenant belongs to.
SELECT request_id FROM approvals WHERE approval_id = $1 AND tenant = $2

-- name: has_decision
-- Whether this very decision was recorded.
SELECT EXISTS (SELECT FROM decisions WHERE decision_id = $1)

-- name: insert_view
-- A person's first look at an approval.
INSERT INTO views (approval_id, tenant, viewer) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING true

-- name: decisions_on
-- What people decided on these approvals, in order.
SELECT * FROM decisions WHERE approval_id = ANY($1::text[]) ORDER BY decided_at, decision_id

-- name: approval_of_request
-- The newest approval of a tenant's call.
SELECT approval_id FROM approvals WHERE request_id = $1 AND tenant = $2 ORDER BY requested_at DESC LIMIT 1

-- name: decided_by_rule
-- By tool and rule: what became of the approvals closed in the last days, and how long the deciding person took.
-- Counted by verdict, not by status: an approval that later became void was approved all the same.
SELECT a.tool, a.rule,
       count(*) FILTER (WHERE d.verdict = 'approve') AS approved,
       count(*) FILTER (WHERE d.verdict = 'deny') AS denied,
       count(*) FILTER (WHERE a.status = 'expired') AS expired,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY extract(epoch FROM d.decided_at - a.requested_at)::float8)
           FILTER (WHERE d.verdict IS NOT NULL) AS median_seconds
FROM approvals a
LEFT JOIN LATERAL (
    SELECT verdict, decided_at FROM decisions WHERE approval_id = a.approval_id ORDER BY decided_at DESC LIMIT 1
) d ON true
WHERE a.tenant = $1 AND a.status <> 'open' AND a.closed_at > now() - make_interval(days => $2)
GROUP BY a.tool, a.rule ORDER BY a.tool, a.rule

-- name: queue
-- What waits now, how much of it expires within the hour, and since when the oldest waits.
SELECT count(*) AS waiting, count(*) FILTER (WHERE expires_at < now() + interval '1 hour') AS due_soon,
       min(requested_at) AS oldest
FROM approvals WHERE tenant = $1 AND status = 'open'

-- name: volume
-- Approvals requested on each of the last days (UTC), days without any included.
SELECT d.day::date AS day, count(a.approval_id) AS count
FROM generate_series((now() AT TIME ZONE 'UTC')::date - ($2::int - 1), (now() AT TIME ZONE 'UTC')::date,
                     interval '1 day') AS d (day)
LEFT JOIN approvals a ON a.tenant = $1 AND a.requested_at >= d.day AT TIME ZONE 'UTC'
    AND a.requested_at < (d.day + interval '1 day') AT TIME ZONE 'UTC'
GROUP BY d.day ORDER BY d.day
