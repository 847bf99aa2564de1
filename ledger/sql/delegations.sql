-- name: lend
-- To somebody else of the same tenant; both may sign in.
INSERT INTO delegations (tenant, delegator, delegate, starts_at, ends_at, reason, created_by)
SELECT o.tenant, o.username, t.username, $4, $5, $6, $7 FROM users o JOIN users t ON t.tenant = o.tenant
WHERE o.tenant = $1 AND o.username = $2 AND t.username = $3 AND o.person_id <> t.person_id
  AND o.disabled_at IS NULL AND t.disabled_at IS NULL
RETURNING delegation_id

-- name: revoke_delegation
-- What has ended has ended.
UPDATE delegations SET revoked_at = now()
WHERE delegation_id = $1 AND tenant = $2 AND ($3::text IS NULL OR delegator = $3) AND revoked_at IS NULL AND ends_at > now()
RETURNING delegation_id, delegator, delegate

-- name: delegations
-- What is lent now or will be, by somebody or to them (or anybody), the first to end first.
SELECT delegation_id, tenant, delegator, delegate, starts_at, ends_at, reason, created_by FROM delegations
WHERE ($1::text IS NULL OR tenant = $1) AND ($2::text IS NULL OR $2 IN (delegator, delegate))
  AND revoked_at IS NULL AND ends_at > now()
ORDER BY ends_at, delegation_id

-- name: tenant_of_account
SELECT tenant FROM users WHERE username = $1
