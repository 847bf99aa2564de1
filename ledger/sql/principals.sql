-- name: by_tokens
-- The live principals behind token hashes: a run's binding for run tokens, roles for people. A run ends with the token it
-- was opened with, an approver's token with its person.
SELECT t.hash, t.token_id, t.kind, t.tenant, t.principal, t.resource, coalesce(r.owner, t.owner) AS owner,
       r.run_id, r.agent_id, r.actor_id, r.customer_id, r.tools, u.username, u.roles, u.person_id, u.names, u.grants, u.lent
FROM tokens t
LEFT JOIN runs r ON r.run_id = t.run_id
LEFT JOIN tokens o ON o.token_id = r.opened_with
LEFT JOIN standings u ON u.username = t.principal AND u.tenant = t.tenant AND t.kind IN ('approver', 'operator')
WHERE t.hash = ANY($1::bytea[]) AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
  AND (t.kind <> 'run' OR (r.revoked_at IS NULL AND o.revoked_at IS NULL AND r.expires_at > now()))
  AND (t.kind <> 'approver' OR u.username IS NOT NULL) AND u.disabled_at IS NULL

-- name: insert_token
-- A token by its hash.
INSERT INTO tokens (token_id, hash, kind, tenant, principal, run_id, expires_at, owner)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (hash) DO NOTHING RETURNING token_id

-- name: tenant_of_token
SELECT tenant FROM tokens WHERE token_id = $1

-- name: list_tokens
-- Tokens without their hashes, newest first; run tokens belong to their runs.
SELECT token_id, kind, tenant, principal, owner, created_at, expires_at, revoked_at FROM tokens WHERE kind <> 'run'
ORDER BY created_at DESC, token_id

-- name: revoke_token
-- Revoke by id; with its token a run ends.
WITH token AS (
    UPDATE tokens SET revoked_at = now() WHERE token_id = $1 AND revoked_at IS NULL RETURNING token_id, run_id, kind, principal
), run AS (
    UPDATE runs SET revoked_at = now() FROM token WHERE runs.run_id = token.run_id AND runs.revoked_at IS NULL
)
SELECT token_id, kind, principal FROM token

-- name: revoke_run
-- End a run that a service of this name opened; the first time counts.
UPDATE runs SET revoked_at = coalesce(revoked_at, now()) WHERE run_id = $1 AND tenant = $2 AND opened_by = $3
RETURNING revoked_at

-- name: open_run
-- A run and its token, in one statement.
WITH run AS (
    INSERT INTO runs (run_id, tenant, agent_id, actor_id, customer_id, tools, opened_by, expires_at, opened_with, owner)
    VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8), $11, $12) RETURNING run_id, expires_at
)
INSERT INTO tokens (token_id, hash, kind, tenant, principal, run_id, expires_at, resource)
SELECT $9, $10, 'run', $2, $3, run_id, expires_at, $13 FROM run RETURNING expires_at

-- name: upsert_user
-- A person; an existing one keeps their password.
INSERT INTO users (tenant, username, display_name, password_hash, roles) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (username) DO NOTHING RETURNING username

-- name: password
-- Of a person who may sign in; none for one who signs in elsewhere.
SELECT tenant, username, password_hash FROM users WHERE username = $1 AND disabled_at IS NULL

-- name: list_users
-- Everyone, with what they are known by.
SELECT u.tenant, u.username, u.display_name, u.roles, u.created_at, u.disabled_at, u.person_id, p.names, p.grants,
       u.password_hash IS NOT NULL AS has_password,
       ARRAY(SELECT i.issuer || ' ' || i.subject FROM identities i WHERE i.username = u.username
             ORDER BY i.issuer, i.subject) AS identities
FROM users u JOIN people p USING (username) ORDER BY u.username

-- name: disable_user
-- Shut a person out, with every account, token and session of theirs.
WITH person AS (
    UPDATE users SET disabled_at = now() WHERE disabled_at IS NULL AND person_id = (
        SELECT person_id FROM users WHERE username = $1
    ) RETURNING tenant, username
), token AS (
    UPDATE tokens t SET revoked_at = now() FROM person p
    WHERE t.tenant = p.tenant AND t.principal = p.username AND t.kind IN ('approver', 'operator') AND t.revoked_at IS NULL
), session AS (
    DELETE FROM sessions s USING person p WHERE s.username = p.username
)
SELECT username FROM person ORDER BY username

-- name: open_session
-- What was proven was proven by now, whatever another's clock says.
INSERT INTO sessions (hash, tenant, username, csrf, expires_at, issuer, proven_at, proven_for)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5), $6, CASE WHEN $7::timestamptz > now() THEN now() ELSE $7 END, $8)

-- name: session
-- The person behind a session, as they are now; and for an operator how many alerts are open, up to a hundred.
SELECT u.tenant, u.username, u.display_name, u.roles, u.person_id, u.names, u.grants, u.lent, s.csrf, s.issuer,
       s.proven_at, s.proven_for,
       EXISTS (SELECT FROM users a WHERE a.username = u.username AND a.password_hash IS NOT NULL) AS has_password,
       CASE WHEN 'operator' = ANY(u.roles) THEN (
           SELECT count(*) FROM (SELECT FROM alerts a WHERE a.tenant = u.tenant AND a.seen_at IS NULL LIMIT 100) open
       ) ELSE 0 END AS open_alerts
FROM sessions s JOIN standings u USING (username)
WHERE s.hash = $1 AND s.expires_at > now() AND u.disabled_at IS NULL

-- name: close_session
DELETE FROM sessions WHERE hash = $1

-- name: prune_sessions
DELETE FROM sessions WHERE expires_at < now()
