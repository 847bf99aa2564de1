-- name: data_key
-- The key that is used now of a tenant's customer.
SELECT key_id, wrapped FROM data_keys WHERE tenant = $1 AND subject = $2 AND retired_at IS NULL

-- name: data_key_by_id
-- The key that a body names.
SELECT key_id, wrapped FROM data_keys WHERE key_id = $1

-- name: data_keys_by_ids
-- The keys that bodies name.
SELECT key_id, wrapped FROM data_keys WHERE key_id = ANY($1::text[])

-- name: insert_data_key
-- A new key; whoever comes second uses the first one's.
INSERT INTO data_keys (key_id, tenant, subject, wrapped) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING

-- name: retire_data_key
-- Nothing more is sealed with it; what is stays readable.
UPDATE data_keys SET retired_at = now()
WHERE tenant = $1 AND subject = $2 AND retired_at IS NULL AND wrapped IS NOT NULL RETURNING key_id
