-- name: lock
-- One change of who is who at a time.
SELECT pg_advisory_xact_lock(hashtextextended('people', 0))

-- name: by_identity
-- The account of an issuer's subject.
SELECT u.tenant, u.username, u.roles, u.disabled_at FROM identities i JOIN users u USING (username)
WHERE i.issuer = $1 AND i.subject = $2

-- name: seen
-- A sign-in of somebody known: their names are kept with the new ones, and where the roles are the provider's to say, they
-- are now these.
WITH identity AS (
    UPDATE identities SET seen_at = now(), names = ARRAY(SELECT unnest(names) UNION SELECT unnest($3::text[]))
    WHERE issuer = $1 AND subject = $2 RETURNING username
)
UPDATE users u SET roles = coalesce($4::text[], u.roles) FROM identity i WHERE u.username = i.username RETURNING u.roles

-- name: is_known
-- Whether anybody has this name, or is known by it.
SELECT EXISTS (SELECT FROM people WHERE username = $1 OR $2 = ANY(names))

-- name: insert_user
-- Somebody who signs in elsewhere.
INSERT INTO users (tenant, username, display_name, roles) VALUES ($1, $2, $3, $4)

-- name: insert_identity
INSERT INTO identities (tenant, issuer, subject, username, names, seen_at) VALUES ($1, $2, $3, $4, $5, CASE WHEN $6 THEN now() END)

-- name: account
SELECT tenant, username, person_id, roles FROM users WHERE username = $1

-- name: merge
-- Make two people one.
UPDATE users SET person_id = $2 WHERE person_id = $1

-- name: add_names
UPDATE users SET also_known_as = ARRAY(SELECT unnest(also_known_as) UNION SELECT unnest($2::text[])) WHERE username = $1
RETURNING username

-- name: grant
INSERT INTO grants (tenant, username, role, tool, currency, up_to)
SELECT tenant, username, $2, $3, $4, $5 FROM users WHERE username = $1
ON CONFLICT (username, role, tool, currency) DO UPDATE SET up_to = excluded.up_to RETURNING username

-- name: bounds
SELECT tool FROM grants WHERE username = $1 AND role = $2

-- name: revoke_grants
DELETE FROM grants WHERE username = $1 AND role = $2 AND ($3::text IS NULL OR tool = $3)

-- name: begin_sign_in
-- With it goes what nobody came back for.
WITH pruned AS (DELETE FROM sign_ins WHERE expires_at < now())
INSERT INTO sign_ins (hash, nonce, verifier, return_to, expires_at, again)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5), $6)

-- name: take_sign_in
-- What was begun, once.
DELETE FROM sign_ins WHERE hash = $1 RETURNING nonce, verifier, return_to, again, expires_at > now() AS in_time
