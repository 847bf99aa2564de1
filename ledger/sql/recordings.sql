-- name: clock
-- The database's, by which calls were recorded.
SELECT now()

-- name: first_since
-- From which event on events are read that were written at a time or later.
SELECT coalesce(min(id), 9223372036854775807) FROM events WHERE at >= $1

-- name: happened
-- What was decided about calls and what became of them, in the order of the ledger, from an event ($1) on. Calls that were
-- asked for by $2, of a tenant or (null) of everyone; bodies only where they are read.
SELECT tenant, request_id, n, type, version, at, key_id,
       CASE WHEN type IN ('call.proposed', 'call.decided', 'call.settled', 'call.amended') THEN body END AS body
FROM events
WHERE id >= $1 AND ($3::text IS NULL OR tenant = $3)
  AND type IN ('call.proposed', 'call.decided', 'call.settled', 'call.amended', 'call.cancelled', 'approval.granted',
               'approval.denied', 'approval.expired')
  AND (at < $2 OR type NOT IN ('call.proposed', 'call.decided'))
ORDER BY id

-- name: versions
-- The policies by which calls of a time were decided, and their texts where those were kept.
SELECT c.policy_version AS version, p.source
FROM (SELECT DISTINCT policy_version FROM calls
      WHERE policy_version IS NOT NULL AND ($1::timestamptz IS NULL OR created_at >= $1) AND created_at < $2
        AND ($3::text IS NULL OR tenant = $3)) c
LEFT JOIN policies p ON p.version = c.policy_version
