-- name: refunds
-- Calls of the tools in $4 that were asked for in a period, after a call's id, with what their events say of the effect.
SELECT c.request_id, c.tenant, c.agent_id, c.rule, c.status, c.review, c.key_id, c.details, e.*
FROM calls c
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE type = 'effect.intended') > 1 AS sent_again,
           count(*) FILTER (WHERE type = 'effect.unknown') > 0 AS was_unknown,
           count(*) FILTER (WHERE type = 'effect.reversed') > 0 AS was_reversed,
           count(*) FILTER (WHERE type = 'review.concluded') > 0 AS by_person
    FROM events WHERE request_id = c.request_id
) e
WHERE ($1::text IS NULL OR c.tenant = $1) AND c.created_at >= $2 AND c.created_at < $3 AND c.tool = ANY($4::text[])
  AND c.request_id > $5
ORDER BY c.request_id LIMIT $6

-- name: sent
-- Calls of the tools in $4, after a call's id, that were sent before $3 and changed since $2, or are not known yet.
SELECT request_id, tenant, tool, agent_id, rule, policy_version, status, operation_id, remote_id FROM calls
WHERE ($1::text IS NULL OR tenant = $1) AND tool = ANY($4::text[]) AND intended_at < $3
  AND (updated_at >= $2 OR status IN ('in_progress', 'outcome_unknown')) AND request_id > $5
ORDER BY request_id LIMIT $6

-- name: of_operations
-- The calls whose effects have these operation ids.
SELECT request_id, tenant, tool, agent_id, rule, policy_version, status, operation_id, remote_id FROM calls
WHERE operation_id = ANY($1::text[])

-- name: refund_events
-- Of these calls the events of these types, call by call, in order.
SELECT tenant, request_id, n, type, version, at, key_id, body, body_hash, previous, hash FROM events
WHERE request_id = ANY($1::text[]) AND type = ANY($2::text[]) ORDER BY request_id, n
