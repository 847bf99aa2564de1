-- name: insert_decision
-- One decision a person and approval; the first wins. The approval, which is locked, counts how many approve it.
WITH decision AS (
    INSERT INTO decisions (decision_id, approval_id, request_id, tenant, approver, verdict, decided_at, through, proof,
                           on_behalf_of, key_id, body)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)
    ON CONFLICT DO NOTHING RETURNING decision_id, approval_id, verdict
), counted AS (
    UPDATE approvals a SET given = given + 1 FROM decision d WHERE a.approval_id = d.approval_id AND d.verdict = 'approve'
)
SELECT decision_id FROM decision

-- name: lock_approval
-- One approval, locked.
SELECT * FROM approvals WHERE approval_id = $1 FOR UPDATE

-- name: extend_approval
-- A later deadline. The warning before it is due anew: one that was sent, or is on its way, spoke of the earlier one.
WITH moved AS (
    UPDATE approvals SET expires_at = $2 WHERE approval_id = $1 RETURNING *
), overtaken AS (
    UPDATE notices SET state = 'moot', closed_at = $3
    WHERE approval_id = $1 AND topic = 'approval_expiring' AND state = 'sending'
)
INSERT INTO notices (tenant, topic, request_id, approval_id, tool, approvers, at, due_at)
SELECT m.tenant, 'approval_expiring', m.request_id, m.approval_id, m.tool, m.approvers, $3, $3 FROM moved m
WHERE NOT EXISTS (SELECT FROM notices n
                  WHERE n.approval_id = $1 AND n.topic = 'approval_expiring' AND n.state = 'due')

-- name: undelivered_decisions
-- Decisions whose call has not moved on since: to be delivered again.
SELECT d.*, c.workflow_id FROM decisions d JOIN calls c USING (request_id, approval_id)
WHERE c.status = 'in_progress' AND c.intended_at IS NULL AND d.verdict = 'approve'
  AND d.decided_at < now() - make_interval(secs => $1)
ORDER BY d.decided_at LIMIT 500

-- name: read_approval
-- One approval of a tenant, and who reads it just now, while it waits.
SELECT a.*, c.username AS claimed_by, coalesce(u.display_name, c.username) AS claimed_name, c.claimed_at,
       c.expires_at AS claimed_until
FROM approvals a
LEFT JOIN claims c ON c.approval_id = a.approval_id AND c.expires_at > now() AND a.status = 'open'
LEFT JOIN users u ON u.username = c.username AND u.tenant = c.tenant
WHERE a.approval_id = $1 AND a.tenant = $2

-- name: closed_approvals
-- What was decided, newest first, after a cursor.
SELECT * FROM approvals
WHERE tenant = $1 AND status <> 'open' AND (closed_at, approval_id) < ($2, $3) AND ($4::text IS NULL OR tool = $4)
ORDER BY closed_at DESC, approval_id DESC LIMIT $5

-- name: approved_by
-- Who has approved it: the person, and the one whose right they used.
SELECT array_remove(ARRAY[coalesce(p.person_id, d.approver), coalesce(o.person_id, d.on_behalf_of)], NULL) AS persons
FROM decisions d
LEFT JOIN people p ON p.username = d.approver AND p.tenant = d.tenant
LEFT JOIN people o ON o.username = d.on_behalf_of AND o.tenant = d.tenant
WHERE d.approval_id = $1 AND d.verdict = 'approve'

-- name: persons
-- Whose accounts these are.
SELECT username, person_id FROM people WHERE tenant = $1 AND username = ANY($2::text[])

-- name: decider
-- Who decides, as they are now.
SELECT person_id, names, roles, grants, lent, disabled_at FROM standings WHERE username = $1 AND tenant = $2

-- name: has_decision
-- Whether this very decision was recorded.
SELECT EXISTS (SELECT FROM decisions WHERE decision_id = $1)

-- name: has_viewed
-- Whether a person has looked at an approval before.
SELECT EXISTS (SELECT FROM views WHERE approval_id = $1 AND viewer = $2)

-- name: insert_view
-- A person's first look at an approval.
INSERT INTO views (approval_id, tenant, viewer, at) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING RETURNING true

-- name: decisions_on
-- What people decided on these approvals, in order.
SELECT * FROM decisions WHERE approval_id = ANY($1::text[]) ORDER BY decided_at, decision_id

-- name: requested_at
-- When people were asked.
SELECT requested_at FROM approvals WHERE approval_id = $1

-- name: tenant_of_approval
SELECT tenant FROM approvals WHERE approval_id = $1

-- name: approval_of_request
-- The newest approval of a tenant's call.
SELECT approval_id FROM approvals WHERE request_id = $1 AND tenant = $2 ORDER BY requested_at DESC LIMIT 1

-- name: queue
-- What waits now, how much of it expires within the hour, and since when the oldest waits.
SELECT count(*) AS waiting, count(*) FILTER (WHERE expires_at < now() + interval '1 hour') AS due_soon,
       min(requested_at) AS oldest
FROM approvals WHERE tenant = $1 AND status = 'open'
