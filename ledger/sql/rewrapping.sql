-- name: held_data_keys
-- How many there are under each master key, by the marks they begin with ($1, $2: its id); those that name none apart.
SELECT k.key_id, count(*) FROM data_keys d
LEFT JOIN unnest($1::bytea[], $2::text[]) AS k (mark, key_id) ON substring(d.wrapped FOR 9) = k.mark
WHERE d.wrapped IS NOT NULL GROUP BY k.key_id

-- name: held_seal_keys
SELECT k.key_id, count(*) FROM seal_keys s
LEFT JOIN unnest($1::bytea[], $2::text[]) AS k (mark, key_id) ON substring(s.wrapped FOR 9) = k.mark
GROUP BY k.key_id

-- name: held_credentials
SELECT k.key_id, count(*) FROM credentials c
LEFT JOIN unnest($1::bytea[], $2::text[]) AS k (mark, key_id) ON substring(c.sealed FOR 9) = k.mark
GROUP BY k.key_id

-- name: held_order_indexes
-- The master key's id stands before the colon.
SELECT k.key_id, count(*) FROM approvals a
LEFT JOIN unnest($1::text[]) AS k (key_id) ON split_part(a.order_index, ':', 1) = k.key_id
WHERE a.order_index IS NOT NULL GROUP BY k.key_id

-- name: waiting_decisions
-- What people decided on calls that have not ended, after an id: the signature is looked at again before the effect.
SELECT d.decision_id, d.tenant, d.key_id, d.body FROM decisions d JOIN calls c USING (request_id)
WHERE c.status IN ('pending_approval', 'in_progress', 'outcome_unknown') AND d.decision_id > $1
ORDER BY d.decision_id LIMIT $2

-- name: data_keys_to_rewrap
-- Those that do not begin with a mark, after an id.
SELECT key_id, wrapped FROM data_keys WHERE wrapped IS NOT NULL AND substring(wrapped FOR 9) <> $1 AND key_id > $2
ORDER BY key_id LIMIT $3

-- name: rewrap_data_keys
-- Those that were not destroyed or wrapped anew meanwhile.
UPDATE data_keys d SET wrapped = n.anew FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n (id, old, anew)
WHERE d.key_id = n.id AND d.wrapped = n.old RETURNING d.key_id

-- name: seal_keys_to_rewrap
SELECT key_id, wrapped FROM seal_keys WHERE substring(wrapped FOR 9) <> $1 AND key_id > $2 ORDER BY key_id LIMIT $3

-- name: rewrap_seal_keys
UPDATE seal_keys s SET wrapped = n.anew FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n (id, old, anew)
WHERE s.key_id = n.id AND s.wrapped = n.old RETURNING s.key_id

-- name: credentials_to_rewrap
SELECT credential_id, tenant, system, tool, sealed FROM credentials
WHERE substring(sealed FOR 9) <> $1 AND credential_id > $2 ORDER BY credential_id LIMIT $3

-- name: rewrap_credentials
UPDATE credentials c SET sealed = n.anew FROM unnest($1::text[], $2::bytea[], $3::bytea[]) AS n (id, old, anew)
WHERE c.credential_id = n.id AND c.sealed = n.old RETURNING c.credential_id

-- name: orders_to_rewrap
-- Approvals whose order is found by a former master key's fingerprint, after an id.
SELECT * FROM approvals
WHERE order_index IS NOT NULL AND split_part(order_index, ':', 1) <> $1 AND approval_id > $2
ORDER BY approval_id LIMIT $3

-- name: rewrap_orders
UPDATE approvals a SET order_index = n.anew FROM unnest($1::text[], $2::text[], $3::text[]) AS n (id, old, anew)
WHERE a.approval_id = n.id AND a.order_index = n.old RETURNING a.approval_id

-- name: keep_public_key
-- A public key that decisions are or were signed with.
INSERT INTO decision_keys (key_id, public_key) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: public_keys
SELECT key_id, public_key FROM decision_keys ORDER BY kept_at DESC, key_id
