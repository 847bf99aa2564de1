-- name: insert_diagnostic
-- One account; never under the id of another tenant's call, whoever names it.
INSERT INTO diagnostics (request_id, tenant, key_id, body)
SELECT $1, $2, $3, $4 WHERE NOT EXISTS (SELECT FROM calls WHERE request_id = $1 AND tenant <> $2)

-- name: diagnostics_of
-- The accounts of a request in order, the latest of very many.
SELECT * FROM (
    SELECT id, tenant, key_id, body FROM diagnostics
    WHERE request_id = $1 AND ($2::text IS NULL OR tenant = $2) ORDER BY id DESC LIMIT $3
) latest ORDER BY id

-- name: prune_diagnostics
-- The oldest of what was kept for long enough; ids grow with time.
DELETE FROM diagnostics
WHERE id IN (SELECT id FROM diagnostics ORDER BY id LIMIT $2) AND at < now() - make_interval(days => $1)
RETURNING id

-- name: holder_of
-- Whose token this is or was, and for a run's token whose customer the run serves.
SELECT t.token_id, t.kind, t.tenant, t.principal, t.run_id, r.customer_id,
       t.revoked_at IS NOT NULL OR r.revoked_at IS NOT NULL OR o.revoked_at IS NOT NULL OR u.disabled_at IS NOT NULL
           AS revoked,
       coalesce(t.expires_at <= now(), false) OR coalesce(r.expires_at <= now(), false) AS expired
FROM tokens t
LEFT JOIN runs r ON r.run_id = t.run_id
LEFT JOIN tokens o ON o.token_id = r.opened_with
LEFT JOIN users u ON u.username = t.principal AND u.tenant = t.tenant AND t.kind IN ('approver', 'operator')
WHERE t.hash = $1
