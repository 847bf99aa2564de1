-- name: decided
-- What was decided about calls of a time, of a tenant or (null) of everyone, after an event; where the body is there still.
SELECT e.id, e.tenant, e.request_id, e.n, e.type, e.version, e.at, e.key_id, e.body, c.tool
FROM events e JOIN calls c USING (request_id)
WHERE e.type = 'call.decided' AND e.version >= 3 AND e.body IS NOT NULL AND e.at >= $1 AND e.at < $2
  AND ($3::text IS NULL OR e.tenant = $3) AND e.id > $4
ORDER BY e.id LIMIT $5
