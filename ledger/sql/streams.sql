-- name: lock_stream
-- Serialises appends to events that belong to no call.
SELECT pg_advisory_xact_lock(hashtextextended($1, 0))

-- name: stream_head
-- The last event of a request.
SELECT n, hash, clock_timestamp() AS now FROM (SELECT clock_timestamp()) clock
LEFT JOIN LATERAL (SELECT n, hash FROM events WHERE request_id = $1 ORDER BY n DESC LIMIT 1) last ON true

-- name: append_to_stream
-- An event of a request that never became a call.
INSERT INTO events (tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: recent_in_stream
-- The newest events of a stream, those left out whose bodies are gone.
SELECT tenant, n, type, version, at, key_id, body FROM events
WHERE request_id = $1 AND at > now() - $2::interval AND body IS NOT NULL
ORDER BY n DESC LIMIT $3

-- name: events_of_streams
-- Of these streams everything, in the order of time.
SELECT tenant, request_id, n, type, version, at, key_id, body, body_hash, previous, hash FROM events
WHERE request_id = ANY($1::text[]) ORDER BY at, request_id, n

-- name: tenants
-- Of runs there are many, and each was opened with a token of its tenant's service.
SELECT tenant FROM users UNION SELECT tenant FROM tokens WHERE kind <> 'run' ORDER BY tenant

-- name: last_in_stream
SELECT tenant, request_id, n, type, version, at, key_id, body, body_hash, previous, hash FROM events
WHERE request_id = $1 ORDER BY n DESC LIMIT 1
