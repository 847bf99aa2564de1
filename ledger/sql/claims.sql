-- name: claim
-- Whoever reads it from now on, while it waits; a claim that stands is another's only to take over where that is said.
-- What ended long ago is cleared away by the way.
WITH ended AS (
    DELETE FROM claims WHERE tenant = $2 AND approval_id <> $1 AND expires_at < now() - interval '1 day'
)
INSERT INTO claims AS c (approval_id, tenant, username, claimed_at, expires_at)
SELECT a.approval_id, a.tenant, $3, now(), now() + make_interval(secs => $4)
FROM approvals a WHERE a.approval_id = $1 AND a.tenant = $2 AND a.status = 'open'
ON CONFLICT (approval_id) DO UPDATE SET
    username = $3,
    claimed_at = CASE WHEN c.username = $3 AND c.expires_at > now() THEN c.claimed_at ELSE now() END,
    expires_at = now() + make_interval(secs => $4)
    WHERE c.username = ANY($5::text[]) OR c.expires_at <= now() OR $6
RETURNING true

-- name: release
-- Of a person, by whichever of their accounts; null: whoever has it.
DELETE FROM claims WHERE approval_id = $1 AND tenant = $2 AND ($3::text[] IS NULL OR username = ANY($3))

-- name: claims_on
-- Who reads these approvals just now.
SELECT c.approval_id, c.username AS claimed_by, coalesce(u.display_name, c.username) AS claimed_name, c.claimed_at,
       c.expires_at AS claimed_until
FROM claims c LEFT JOIN users u ON u.username = c.username AND u.tenant = c.tenant
WHERE c.approval_id = ANY($1::text[]) AND c.expires_at > now()
