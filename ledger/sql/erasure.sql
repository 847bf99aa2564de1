-- name: lock_customer
-- Waits for what is being admitted for them; what comes after finds the key gone.
SELECT pg_advisory_xact_lock($1)

-- name: open_calls
-- What of a customer's has not ended.
SELECT request_id FROM calls
WHERE tenant = $1 AND customer_id = $2 AND status IN ('pending_approval', 'in_progress', 'outcome_unknown')
ORDER BY created_at, request_id

-- name: extent
-- How much there is of a customer: calls, those whose effects are looked at again, approvals, runs that are open, and keys.
SELECT (SELECT count(*) FROM calls WHERE tenant = $1 AND customer_id = $2) AS calls,
       (SELECT count(*) FROM calls WHERE tenant = $1 AND customer_id = $2 AND recheck_at IS NOT NULL) AS watched,
       (SELECT count(*) FROM approvals a JOIN calls c USING (request_id)
        WHERE c.tenant = $1 AND c.customer_id = $2) AS approvals,
       (SELECT count(*) FROM runs WHERE tenant = $1 AND customer_id = $2 AND revoked_at IS NULL AND expires_at > now())
           AS runs,
       (SELECT count(*) FROM data_keys WHERE tenant = $1 AND subject = $2) AS keys

-- name: workflows
-- Whose histories there may be.
SELECT workflow_id FROM calls WHERE tenant = $1 AND customer_id = $2 ORDER BY workflow_id

-- name: erase
-- The keys are destroyed, and with them everything that is sealed; accounts of failures go; and in what is left the
-- customer ($2) and whoever acted under their name ($4: normalised) have another name ($3). Limits that counted them begin
-- anew. What was taken from which payment stays: it is the books'.
WITH key AS (
    UPDATE data_keys SET wrapped = NULL, subject = $3, destroyed_at = now(), retired_at = coalesce(retired_at, now())
    WHERE tenant = $1 AND subject = $2 RETURNING key_id
), call AS (
    UPDATE calls SET customer_id = $3, erased_at = now(), recheck_at = NULL
    WHERE tenant = $1 AND customer_id = $2 RETURNING request_id
), approval AS (
    UPDATE approvals a SET customer_id = $3, erased_at = now(), order_index = NULL,
                           requesters = (SELECT array_agg(CASE WHEN r = ANY($4::text[]) THEN $3 ELSE r END)
                                         FROM unnest(a.requesters) r)
    FROM call c WHERE a.request_id = c.request_id
), run AS (
    UPDATE runs SET customer_id = $3, actor_id = CASE WHEN actor_id = $2 THEN $3 ELSE actor_id END,
                    revoked_at = coalesce(revoked_at, now())
    WHERE tenant = $1 AND customer_id = $2
), use AS (
    UPDATE uses u SET subject = 'erased:' || gen_random_uuid()
    FROM call c WHERE u.request_id = c.request_id AND u.subject ~ '^(together:)?(unasked:)?(customer|order|repeat):'
), account AS (
    DELETE FROM diagnostics d USING key k WHERE d.key_id = k.key_id
)
SELECT count(*) FROM call
