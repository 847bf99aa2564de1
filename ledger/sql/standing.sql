-- name: approvals
-- What waits for a person, by tool: how many, for how long the oldest has, and how long the next one still may.
SELECT tool, count(*) AS waiting, extract(epoch FROM now() - min(requested_at))::float8 AS oldest,
       extract(epoch FROM min(expires_at) - now())::float8 AS due
FROM approvals WHERE status = 'open' GROUP BY tool

-- name: open_calls
-- Calls that are not settled and wait for nobody, by tool and status: how many, how many of them a person has to settle,
-- since when the oldest effect was sent, and since when the one that moved least has not moved.
SELECT tool, status, count(*) AS open, count(review) AS reviews,
       coalesce(extract(epoch FROM now() - min(intended_at)), 0)::float8 AS oldest,
       extract(epoch FROM now() - min(updated_at))::float8 AS unmoved
FROM calls WHERE status IN ('in_progress', 'outcome_unknown') GROUP BY tool, status

-- name: switches
-- What is switched off, by the kind of its name and whether a breaker did it.
SELECT split_part(name, ':', 1) AS kind, off_by = $1 AS tripped, count(*) AS off FROM switches GROUP BY 1, 2

-- name: notices
-- What was not delivered in the last day, and for how long what was due first has not been.
SELECT (SELECT count(*) FROM notices WHERE state = 'undelivered' AND closed_at > now() - interval '1 day') AS undelivered,
       (SELECT greatest(coalesce(extract(epoch FROM now() - min(due_at)), 0), 0)::float8 FROM notices
        WHERE state IN ('due', 'sending') AND due_at < now()) AS overdue

-- name: alerts
-- What operators have not seen to yet.
SELECT kind, count(*) AS open FROM alerts WHERE seen_at IS NULL GROUP BY kind

-- name: unsealed
-- For how long the oldest event that is in no seal has been there; 0 where all are sealed.
SELECT coalesce((SELECT extract(epoch FROM clock_timestamp() - at) FROM events
                 WHERE id > (SELECT settled FROM sealing) AND NOT EXISTS (SELECT FROM seals WHERE ids @> id)
                 ORDER BY id LIMIT 1), 0)::float8

-- name: behind
-- For how long the row of a call has not known of one of its events, among the newest $1; 0 where every row does.
SELECT coalesce(extract(epoch FROM clock_timestamp() - min(e.at)), 0)::float8
FROM (SELECT request_id, n, at FROM events ORDER BY id DESC LIMIT $1) e
JOIN calls c USING (request_id) WHERE e.n > c.n
