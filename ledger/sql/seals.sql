-- name: try_lock
-- Whoever gets it seals, until the transaction ends.
SELECT pg_try_advisory_xact_lock(7262626263)

-- name: lock
-- Waits for whoever seals.
SELECT pg_advisory_xact_lock(7262626263)

-- name: last_seal
-- The newest seal; none in a ledger that is not sealed yet.
SELECT number, ids, size, peaks, checkpoint FROM seals ORDER BY number DESC LIMIT 1

-- name: seal
-- One seal.
SELECT number, ids, size, peaks, checkpoint FROM seals WHERE number = $1

-- name: sealing
-- Which ledger it is, up to which id all is settled, and which ids above it are sealed.
SELECT origin, settled,
       coalesce((SELECT range_agg(ids) FROM seals WHERE ids && int8range(settled, NULL)), '{}'::int8multirange) AS sealed
FROM sealing

-- name: unsealed
-- What was committed and is not sealed: above the highest id that is, and those below it that were not there before.
-- With it, for what to wait until an id that is missing can no longer come.
SELECT id, hash, pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next_transaction,
       pg_snapshot_xmin(pg_current_snapshot())::text::bigint AS oldest_transaction, clock_timestamp() AS now
FROM (SELECT 1) one LEFT JOIN (
    (SELECT id, hash FROM events WHERE id > $1 ORDER BY id LIMIT $3)
    UNION ALL
    (SELECT id, hash FROM events WHERE id = ANY($2::bigint[]))
) found ON true
ORDER BY id

-- name: insert_seal
-- Its number is taken once: two sealers cannot both have it.
WITH seal AS (
    INSERT INTO seals (number, ids, size, peaks, checkpoint) VALUES ($1, $2, $3, $4, $5)
)
UPDATE sealing SET settled = $6

-- name: current_key
-- The key that signs.
SELECT key_id, verifier_key, wrapped FROM seal_keys WHERE retired_at IS NULL

-- name: insert_key
-- A new key that signs.
INSERT INTO seal_keys (key_id, verifier_key, wrapped) VALUES ($1, $2, $3)

-- name: retire_key
-- From now on another one signs.
UPDATE seal_keys SET retired_at = clock_timestamp() WHERE key_id = $1

-- name: verifier_keys
-- Every key that ever signed, from the first one on.
SELECT verifier_key FROM seal_keys ORDER BY created_at, key_id

-- name: sealed_hashes
-- The hashes of what these seals cover, in the order of the leaves.
SELECT e.hash FROM seals s CROSS JOIN LATERAL unnest(s.ids) r (span) CROSS JOIN LATERAL (
    SELECT id, hash FROM events WHERE id >= lower(r.span) AND id < upper(r.span) ORDER BY id
) e
WHERE s.number BETWEEN $1 AND $2 ORDER BY s.number, e.id

-- name: seals_between
-- These seals, in their order.
SELECT number, ids, size, peaks, checkpoint FROM seals WHERE number > $1 ORDER BY number LIMIT $2

-- name: seal_of_event
-- The seal that covers an event, and the event's id.
SELECT e.id, s.number FROM events e LEFT JOIN seals s ON s.ids @> e.id WHERE e.request_id = $1 AND e.n = $2

-- name: headless
-- Calls whose last event is not there, among those that were changed since.
SELECT request_id FROM calls c
WHERE updated_at >= $1 AND NOT EXISTS (SELECT FROM events e
                                       WHERE e.request_id = c.request_id AND e.n = c.n AND e.hash = c.hash)
ORDER BY request_id LIMIT 1

-- name: state
-- The clock, up to which id all is settled, and how many events are sealed.
SELECT now(), settled, (SELECT coalesce(max(size), 0) FROM seals) AS events FROM sealing

-- name: late
-- Whether the oldest event above the last seal is older than so many seconds: nobody seals.
SELECT coalesce((SELECT at < clock_timestamp() - make_interval(secs => $1) FROM events
                 WHERE id >= coalesce((SELECT upper(ids) FROM seals ORDER BY number DESC LIMIT 1), 0)
                 ORDER BY id LIMIT 1), false)

-- name: is_settled
-- Whether there are no more events up to there than are sealed.
SELECT (SELECT count(*) FROM events WHERE id <= settled)
       <= (SELECT coalesce(sum(least(upper(r.span), settled + 1) - lower(r.span)), 0)
           FROM seals, unnest(ids) r (span) WHERE lower(r.span) <= settled)
FROM sealing

-- name: never_sealed
-- What is in no seal, wherever it is.
SELECT id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash
FROM events WHERE NOT EXISTS (SELECT FROM seals WHERE ids @> id) ORDER BY id

-- name: origin
-- Which ledger this is.
SELECT origin FROM sealing

-- name: events_in
-- Events with ids in these ranges, as they are stored.
SELECT e.* FROM unnest($1::int8range[]) r (span) CROSS JOIN LATERAL (
    SELECT id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash
    FROM events WHERE id >= lower(r.span) AND id < upper(r.span) ORDER BY id
) e

-- name: unsealed_events
-- What was committed and is in no seal.
SELECT id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash
FROM events WHERE id > (SELECT settled FROM sealing) AND NOT EXISTS (SELECT FROM seals WHERE ids @> id) ORDER BY id

-- name: sealed_ids
-- What a seal covers, in the order of the leaves.
SELECT e.id, e.hash FROM seals s CROSS JOIN LATERAL unnest(s.ids) r (span) CROSS JOIN LATERAL (
    SELECT id, hash FROM events WHERE id >= lower(r.span) AND id < upper(r.span) ORDER BY id
) e
WHERE s.number = $1 ORDER BY e.id

-- name: event_by_id
-- One event as it is stored.
SELECT id, tenant, request_id, n, type, version, at, key_id, body, previous, hash, body_hash FROM events WHERE id = $1

-- name: seal_of_size
-- The first seal with a tree of this size.
SELECT min(number) FROM seals WHERE size = $1

-- name: rotations
-- Seals of trees of this size or larger, before a number, in which a key named the next one.
SELECT number, ids, size, peaks, checkpoint FROM seals
WHERE checkpoint LIKE E'%\nnext-key %' AND size >= $1 AND number < $2 ORDER BY number
