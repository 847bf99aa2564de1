-- name: put
-- A new credential; the newest one that is not retired is used.
INSERT INTO credentials (credential_id, tenant, system, tool, sealed, created_by) VALUES ($1, $2, $3, $4, $5, $6)

-- name: in_use
-- The one that is used for exactly this binding.
SELECT credential_id, tenant, system, tool, sealed FROM credentials
WHERE tenant = $1 AND system = $2 AND tool = $3 AND retired_at IS NULL ORDER BY created_at DESC, credential_id LIMIT 1

-- name: retire
UPDATE credentials SET retired_at = now() WHERE credential_id = $1 AND retired_at IS NULL RETURNING credential_id

-- name: stored
SELECT credential_id, tenant, system, tool, created_at, created_by, retired_at FROM credentials
ORDER BY created_at DESC, credential_id

-- name: select
-- Whether the vault is locked for a tenant, and the credential that is bound most closely: to the tenant before everyone,
-- to the tool before any, then the newest.
SELECT EXISTS (SELECT FROM switches WHERE name = 'vault' AND tenant IN ($1, '*')) AS locked,
       c.credential_id, c.tenant, c.system, c.tool, c.sealed
FROM (SELECT) one LEFT JOIN LATERAL (
    SELECT * FROM credentials
    WHERE tenant IN ($1, '*') AND system = $2 AND tool IN ($3, '*') AND retired_at IS NULL
    ORDER BY tenant = $1 DESC, tool = $3 DESC, created_at DESC, credential_id LIMIT 1
) c ON true
