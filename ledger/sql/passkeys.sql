-- name: passkeys_of
-- Somebody's passkeys, the oldest first.
SELECT credential_id, name, public_key, sign_count, created_at, used_at FROM passkeys
WHERE tenant = $1 AND username = $2 ORDER BY created_at, credential_id

-- name: add_passkey
-- One authenticator's key is one account's.
INSERT INTO passkeys (credential_id, tenant, username, name, public_key, sign_count) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT DO NOTHING RETURNING true

-- name: remove_passkey
DELETE FROM passkeys WHERE tenant = $1 AND username = $2 AND credential_id = $3 RETURNING true

-- name: lock_passkey
-- A passkey of somebody's, while a signature of it is looked at.
SELECT public_key, sign_count FROM passkeys WHERE tenant = $1 AND username = $2 AND credential_id = $3 FOR UPDATE

-- name: passkey_used
UPDATE passkeys SET sign_count = $3, used_at = now() WHERE tenant = $1 AND credential_id = $2

-- name: new_nonce
-- With it goes what nobody came back with.
WITH pruned AS (DELETE FROM passkey_nonces WHERE expires_at < now())
INSERT INTO passkey_nonces (nonce, tenant, username, purpose, expires_at)
VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))

-- name: take_nonce
-- Once, by whom it was made for and for what; whether it was in time.
DELETE FROM passkey_nonces WHERE nonce = $1 AND tenant = $2 AND username = $3 AND purpose = $4
RETURNING expires_at > statement_timestamp()
