-- name: by_token
-- The live principal behind a token hash: a run's binding for run tokens, roles for people. A run ends with the token it
-- was opened with, an approver's token with its person.
SELECT t.token_id, t.kind, t.tenant, t.principal, r.run_id, r.agent_id, r.actor_id, r.customer_id, r.tools,
       u.username, u.roles
FROM tokens t
LEFT JOIN runs r ON r.run_id = t.run_id
LEFT JOIN tokens o ON o.token_id = r.opened_with
LEFT JOIN users u ON u.username = t.principal AND u.tenant = t.tenant AND t.kind IN ('approver', 'operator')
WHERE t.hash = $1 AND t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > now())
  AND (t.kind <> 'run' OR (r.revoked_at IS NULL AND o.revoked_at IS NULL AND r.expires_at > now()))
  AND (t.kind <> 'approver' OR u.username IS NOT NULL) AND u.disabled_at IS NULL

-- name: insert_token
-- A token by its hash.
INSERT INTO tokens (token_id, hash, kind, tenant, principal, run_id, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (hash) DO NOTHING

-- name: list_tokens
-- Tokens without their hashes, newest first; run tokens belong to their runs.
SELECT token_id, kind, tenant, principal, created_at, expires_at, revoked_at FROM tokens WHERE kind <> 'run'
ORDER BY created_at DESC, token_id

-- name: revoke_token
-- Revoke by id; with its token a run ends.
WITH token AS (
    UPDATE tokens SET revoked_at = now() WHERE token_id = $1 AND revoked_at IS NULL RETURNING token_id, run_id
), run AS (
    UPDATE runs SET revoked_at = now() FROM token WHERE runs.run_id = token.run_id AND runs.revoked_at IS NULL
)
SELECT token_id FROM token

-- name: revoke_run
-- End a run that a service of this name opened; the first time counts.
UPDATE runs SET revoked_at = coalesce(revoked_at, now()) WHERE run_id = $1 AND tenant = $2 AND opened_by = $3
RETURNING revoked_at

-- name: open_run
-- A run and its token, in one statement.
WITH run AS (
    INSERT INTO runs (run_id, tenant, agent_id, actor_id, customer_id, tools, opened_by, expires_at, opened_with)
    VALUES ($1, $2, $3, $4, $5, $6, $7, now() + make_interval(secs => $8), $11) RETURNING run_id, expires_at
)
INSERT INTO tokens (token_id, hash, kind, tenant, principal, run_id, expires_at)
SELECT $9, $10, 'run', $2, $3, run_id, expires_at FROM run RETURNING expires_at

-- name: upsert_user
-- A person; an existing one keeps their password.
INSERT INTO users (tenant, username, display_name, password_hash, roles) VALUES ($1, $2, $3, $4, $5)
ON CONFLICT (username) DO NOTHING RETURNING username

-- name: user
-- A person who may sign in.
SELECT tenant, username, display_name, password_hash, roles FROM users WHERE username = $1 AND disabled_at IS NULL

-- name: list_users
SELECT tenant, username, display_name, roles, created_at, disabled_at FROM users ORDER BY username

-- name: disable_user
-- Shut a person out, with every token and session of theirs.
WITH person AS (
    UPDATE users SET disabled_at = now() WHERE username = $1 AND disabled_at IS NULL RETURNING tenant, username
), token AS (
    UPDATE tokens t SET revoked_at = now() FROM person p
    WHERE t.tenant = p.tenant AND t.principal = p.username AND t.kind IN ('approver', 'operator') AND t.revoked_at IS NULL
), session AS (
    DELETE FROM sessions s USING person p WHERE s.username = p.username
)
SELECT username FROM person

-- name: open_session
INSERT INTO sessions (hash, tenant, username, csrf, expires_at)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))

-- name: session
-- The person behind a session, as they are now; and for an operator how many alerts are open, up to a hundred.
SELECT u.tenant, u.username, u.display_name, u.roles, s.csrf,
       CASE WHEN 'operator' = ANY(u.roles) THEN (
           SELECT count(*) FROM (SELECT FROM alerts a WHERE a.tenant = u.tenant AND a.seen_at IS NULL LIMIT 100) open
       ) ELSE 0 END AS open_alerts
FROM sessions s JOIN users u USING (username)
WHERE s.hash = $1 AND s.expires_at > now() AND u.disabled_at IS NULL

-- name: close_session
DELETE FROM sessions WHERE hash = $1

-- name: prune_sessions
DELETE FROM sessions WHERE expires_at < now()
