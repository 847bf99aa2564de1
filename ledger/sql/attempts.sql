-- name: count
-- Count so many attempts ($3) in each window (subjects $1, seconds $2); a row whose window has passed begins anew. Rows
-- are locked in one order, so that two of these never wait for each other.
INSERT INTO attempts AS a (subject, seconds, began_at, count)
SELECT subject, seconds, to_timestamp(floor(extract(epoch FROM now()) / seconds) * seconds), attempts
FROM unnest($1::text[], $2::integer[], $3::integer[]) AS given (subject, seconds, attempts)
ORDER BY subject, seconds
ON CONFLICT (subject, seconds) DO UPDATE
SET count = CASE WHEN a.began_at < excluded.began_at THEN excluded.count ELSE a.count + excluded.count END,
    began_at = greatest(a.began_at, excluded.began_at)
RETURNING subject, seconds, count,
          greatest(1, ceil(extract(epoch FROM began_at - now()) + seconds))::integer AS ends_in

-- name: prune
-- Windows that have passed; a row that is just being counted in is left for the next time.
DELETE FROM attempts WHERE (subject, seconds) IN (
    SELECT subject, seconds FROM attempts
    WHERE began_at < now() - make_interval(secs => seconds)
    FOR UPDATE SKIP LOCKED
)
