-- name: open_alerts
-- What no operator has seen to yet, newest first.
SELECT a.alert_id, a.request_id, a.kind, a.at, c.tool, c.status, c.workflow_id, c.review, a.channel
FROM alerts a LEFT JOIN calls c USING (request_id)
WHERE a.tenant = $1 AND a.seen_at IS NULL ORDER BY a.at DESC, a.alert_id DESC LIMIT $2

-- name: alerts_of
SELECT kind FROM alerts WHERE request_id = $1 ORDER BY alert_id

-- name: see_alert
-- An operator saw to it; the first one counts.
UPDATE alerts SET seen_at = now(), seen_by = $3 WHERE alert_id = $1 AND tenant = $2 AND seen_at IS NULL RETURNING true

-- name: see_alerts_of
-- Settling a call sees to what was said of it.
UPDATE alerts SET seen_at = now(), seen_by = $2 WHERE request_id = $1 AND seen_at IS NULL
