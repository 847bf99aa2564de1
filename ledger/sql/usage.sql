-- name: used
-- What live calls of a tenant took of each subject in its window, and since its breaker last tripped.
SELECT w.i, count(l.request_id) AS count, coalesce(sum(l.amount), 0)::bigint AS amount
FROM unnest($2::int[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::text[])
    AS w (i, tool, subject, seconds, tripped, tripped_by)
LEFT JOIN LATERAL (
    SELECT greatest(CASE WHEN w.seconds IS NULL THEN '-infinity'::timestamptz
                         ELSE statement_timestamp() - make_interval(secs => w.seconds) END,
                    (SELECT max(t.at) FROM uses t
                     WHERE t.tenant = $1 AND t.subject = w.tripped AND t.tool = w.tripped_by AND t.state <> 'released'))
        AS since
) s ON true
LEFT JOIN uses l ON l.tenant = $1 AND l.subject = w.subject AND l.tool = w.tool AND l.state <> 'released'
    AND l.at > s.since
GROUP BY w.i ORDER BY w.i

-- name: hourly
-- Calls of a tool by the hour (UTC) they were asked for in, this one and those before it: done, not ended yet, and come to
-- nothing.
SELECT h.hour, coalesce(c.done, 0) AS done, coalesce(c.open, 0) AS open, coalesce(c.nothing, 0) AS nothing
FROM generate_series(date_trunc('hour', now(), 'UTC') - make_interval(hours => $3 - 1), date_trunc('hour', now(), 'UTC'),
                     interval '1 hour') AS h (hour)
LEFT JOIN (
    SELECT date_trunc('hour', created_at, 'UTC') AS hour, count(*) FILTER (WHERE status = 'executed') AS done,
           count(*) FILTER (WHERE status IN ('in_progress', 'pending_approval', 'outcome_unknown')) AS open,
           count(*) FILTER (WHERE status NOT IN ('executed', 'in_progress', 'pending_approval', 'outcome_unknown'))
               AS nothing
    FROM calls
    WHERE tenant = $1 AND tool = $2
      AND created_at >= date_trunc('hour', now(), 'UTC') - make_interval(hours => $3 - 1)
      AND created_at < date_trunc('hour', now(), 'UTC') + interval '1 hour'
    GROUP BY 1
) c USING (hour)
ORDER BY h.hour
