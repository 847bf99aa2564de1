-- name: due
-- What is due to be told and goes nowhere yet, with what decides whether, where and when; locked, save what others route.
SELECT n.notice_id, n.tenant, n.topic, n.tool, n.approvers, n.due_at, a.status AS approval_status, a.requested_at,
       a.expires_at, l.channel AS alert_channel
FROM notices n
LEFT JOIN approvals a ON a.approval_id = n.approval_id
LEFT JOIN alerts l ON l.alert_id = n.alert_id
WHERE n.state = 'due' AND n.due_at <= now()
ORDER BY n.due_at, n.notice_id LIMIT $1 FOR UPDATE OF n SKIP LOCKED

-- name: postpone
-- To be looked at again later.
UPDATE notices n SET due_at = p.due_at
FROM unnest($1::text[], $2::timestamptz[]) AS p (notice_id, due_at) WHERE n.notice_id = p.notice_id

-- name: route
-- One notice for each channel in the place of the one that has none; where it goes to no channel, none.
WITH routed AS (
    DELETE FROM notices WHERE notice_id = ANY($1::text[]) RETURNING *
)
INSERT INTO notices (tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, due_at, channel, state)
SELECT r.tenant, r.topic, r.request_id, r.approval_id, r.alert_id, r.tool, r.approvers, r.at, r.due_at, c.channel,
       'sending'
FROM routed r JOIN unnest($2::text[], $3::text[]) AS c (notice_id, channel) USING (notice_id)

-- name: unstarted
-- What is to be sent and was never taken up, or so long ago that it may be lost.
SELECT notice_id FROM notices
WHERE state = 'sending' AND (started_at IS NULL OR started_at < now() - make_interval(secs => $1))
ORDER BY at, notice_id LIMIT $2

-- name: started
UPDATE notices SET started_at = now() WHERE notice_id = $1 AND state = 'sending'

-- name: notice
SELECT notice_id, tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, channel, state, attempts, problem,
       closed_at
FROM notices WHERE notice_id = $1

-- name: close
-- Delivered, or no longer worth telling.
UPDATE notices SET state = $2, closed_at = now(), attempts = attempts + $3, problem = NULL
WHERE notice_id = $1 AND state = 'sending'

-- name: failed
-- An attempt that came to nothing, and why in a word of ours.
UPDATE notices SET attempts = attempts + 1, problem = $2 WHERE notice_id = $1 AND state = 'sending'

-- name: give_up
-- No attempt is made any more, and operators are told, by the page and by the other channels; but not again and again of a
-- channel, nor because they could not be told just that.
WITH lost AS (
    UPDATE notices SET state = 'undelivered', closed_at = now() WHERE notice_id = $1 AND state = 'sending' RETURNING *
), alert AS (
    INSERT INTO alerts (tenant, channel, kind, at)
    SELECT l.tenant, l.channel, 'notice_undelivered', now() FROM lost l
    WHERE NOT EXISTS (SELECT FROM alerts a WHERE a.alert_id = l.alert_id AND a.channel IS NOT NULL)
    ON CONFLICT DO NOTHING RETURNING alert_id, tenant, at
)
INSERT INTO notices (tenant, topic, alert_id, at, due_at) SELECT tenant, 'alert', alert_id, at, at FROM alert

-- name: retry
-- Send one again that was given up.
UPDATE notices SET state = 'sending', started_at = NULL, closed_at = NULL
WHERE notice_id = $1 AND ($2::text IS NULL OR tenant = $2) AND state = 'undelivered' RETURNING true

-- name: undelivered
-- What a tenant's people were not told, newest first.
SELECT notice_id, tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, channel, state, attempts, problem,
       closed_at
FROM notices WHERE tenant = $1 AND state = 'undelivered' ORDER BY closed_at DESC, notice_id LIMIT $2

-- name: stuck
-- What attempts have failed to tell so far, oldest first.
SELECT notice_id, tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, channel, state, attempts, problem,
       closed_at
FROM notices WHERE tenant = $1 AND state = 'sending' AND problem IS NOT NULL ORDER BY at, notice_id LIMIT $2

-- name: recent
-- Of every tenant, newest first.
SELECT notice_id, tenant, topic, request_id, approval_id, alert_id, tool, approvers, at, channel, state, attempts, problem,
       closed_at
FROM notices WHERE state <> 'due' AND ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR state = $2)
ORDER BY at DESC, notice_id LIMIT $3

-- name: prune
-- What was told, or was not, long ago.
WITH gone AS (
    DELETE FROM notices WHERE closed_at < now() - make_interval(days => $1) RETURNING notice_id
)
SELECT count(*) FROM gone

-- name: groups
-- Groups that something waits for, or whose approvals were closed within a day.
SELECT tenant, approvers FROM approvals WHERE status = 'open'
UNION
SELECT tenant, approvers FROM approvals WHERE status <> 'open' AND closed_at > now() - interval '1 day'
ORDER BY tenant, approvers

-- name: add_digests
-- The digests of a day, each once whoever adds it.
INSERT INTO notices (tenant, topic, approvers, channel, day, at, due_at, state)
SELECT d.tenant, 'digest', d.approvers, d.channel, $4, now(), now(), 'sending'
FROM unnest($1::text[], $2::text[], $3::text[]) AS d (tenant, approvers, channel)
ON CONFLICT DO NOTHING

-- name: digest
-- What waits for a group now, and what became of its approvals in the day before a moment. An approval counts as its last
-- decision has it, also where it became void later.
SELECT count(*) FILTER (WHERE a.status = 'open') AS waiting,
       min(a.requested_at) FILTER (WHERE a.status = 'open') AS oldest,
       min(a.expires_at) FILTER (WHERE a.status = 'open') AS next_deadline,
       count(*) FILTER (WHERE a.status = 'expired') AS expired,
       count(*) FILTER (WHERE d.verdict = 'approve') AS approved,
       count(*) FILTER (WHERE d.verdict = 'deny') AS denied
FROM (
    SELECT * FROM approvals WHERE tenant = $1 AND approvers = $2 AND status = 'open'
    UNION ALL
    SELECT * FROM approvals
    WHERE tenant = $1 AND approvers = $2 AND status <> 'open' AND closed_at > $3::timestamptz - interval '1 day'
) a
LEFT JOIN LATERAL (
    SELECT verdict FROM decisions WHERE approval_id = a.approval_id ORDER BY decided_at DESC LIMIT 1
) d ON a.status <> 'open'

-- name: alert
-- What an alert is about.
SELECT kind, channel, request_id FROM alerts WHERE alert_id = $1 AND tenant = $2
