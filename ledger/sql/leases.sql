-- name: take
-- Take it, or keep it for longer; no row where somebody else has it. The database's clock alone counts.
INSERT INTO leases AS l (name, holder, ends_at) VALUES ($1, $2, clock_timestamp() + make_interval(secs => $3))
ON CONFLICT (name) DO UPDATE
SET holder = excluded.holder, ends_at = excluded.ends_at, term = l.term + (l.holder <> excluded.holder)::integer
WHERE l.holder = excluded.holder OR l.ends_at <= clock_timestamp()
RETURNING term

-- name: give_back
-- The next one need not wait for its end.
UPDATE leases SET ends_at = clock_timestamp() WHERE name = $1 AND holder = $2
