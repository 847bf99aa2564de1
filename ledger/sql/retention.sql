-- name: rules
-- How long which class of events is kept.
SELECT event_class, keep_days, set_by, set_at FROM retention ORDER BY event_class

-- name: set
INSERT INTO retention (event_class, keep_days, set_by) VALUES ($1, $2, $3)
ON CONFLICT (event_class) DO UPDATE SET keep_days = $2, set_by = $3, set_at = now()

-- name: unset
DELETE FROM retention WHERE event_class = $1 RETURNING event_class

-- name: due
-- Whose bodies of a type are older than it is kept, by the day (UTC): tenants, and how many there are of each, counting no
-- further than $3. Calls that have not ended, or whose effects are looked at again, keep theirs.
SELECT tenant, count(*) AS count FROM (
    SELECT e.tenant FROM events e
    WHERE e.type = $1 AND e.body IS NOT NULL AND e.at < date_trunc('day', now(), 'UTC') - make_interval(days => $2)
      AND NOT EXISTS (SELECT FROM calls c WHERE c.request_id = e.request_id AND (
          c.status IN ('pending_approval', 'in_progress', 'outcome_unknown') OR c.recheck_at IS NOT NULL))
    LIMIT $3
) due GROUP BY tenant ORDER BY tenant

-- name: try_lock
-- Whoever gets it prunes, until the transaction ends.
SELECT pg_try_advisory_xact_lock(7262626264)

-- name: prune
-- Bodies of a type that are due become their hashes: how many of each of these tenants, and the time before which.
WITH due AS (
    SELECT e.id FROM events e
    WHERE e.type = $1 AND e.body IS NOT NULL AND e.at < date_trunc('day', now(), 'UTC') - make_interval(days => $2)
      AND NOT EXISTS (SELECT FROM calls c WHERE c.request_id = e.request_id AND (
          c.status IN ('pending_approval', 'in_progress', 'outcome_unknown') OR c.recheck_at IS NOT NULL))
      AND e.tenant = ANY($4::text[])
    ORDER BY e.at LIMIT $3
), pruned AS (
    UPDATE events e SET body = NULL, body_hash = sha256(e.body) FROM due WHERE e.id = due.id RETURNING e.tenant
)
SELECT tenant, count(*) AS count, date_trunc('day', now(), 'UTC') - make_interval(days => $2) AS until
FROM pruned GROUP BY tenant ORDER BY tenant
