-- name: gates
-- What became of the approvals requested in a period: of all of them, by tool, by tool and rule, and for those of the
-- groups in $5 (null: of every group) by the people who opened or decided them. A person's times are from their first
-- look to their decision, the others' from the request. What became void after it was approved was approved all the same.
WITH asked AS MATERIALIZED (
    SELECT a.approval_id, a.tool, a.rule, a.approvers, a.words, a.status = 'voided' AS voided,
           CASE a.status WHEN 'voided' THEN 'granted' ELSE a.status END AS ended,
           extract(epoch FROM d.decided_at - a.requested_at)::float8 AS seconds, d.approver, d.decided_at, d.through
    FROM approvals a
    LEFT JOIN LATERAL (
        -- Of several, the one that decided it.
        SELECT d.approver, d.decided_at, d.through FROM decisions d
        WHERE d.approval_id = a.approval_id AND a.status IN ('granted', 'voided', 'denied')
        ORDER BY d.decided_at DESC LIMIT 1
    ) d ON true
    WHERE ($1::text IS NULL OR a.tenant = $1) AND a.requested_at >= $2 AND a.requested_at < $3
      AND ($4::text IS NULL OR a.tool = $4)
), involved AS MATERIALIZED (
    SELECT d.approval_id, d.approver AS person FROM decisions d JOIN asked a USING (approval_id)
    WHERE $5::text[] IS NULL OR a.approvers = ANY($5)
    UNION
    SELECT v.approval_id, v.viewer FROM views v JOIN asked a USING (approval_id)
    WHERE $5::text[] IS NULL OR a.approvers = ANY($5)
), look AS (
    SELECT a.tool, a.rule, NULL AS person, a.ended, a.voided, a.seconds, a.words, a.decided_at, a.through, v.at AS opened_at,
           CASE a.ended WHEN 'granted' THEN 'approve' WHEN 'denied' THEN 'deny' END AS verdict
    FROM asked a
    LEFT JOIN views v ON v.approval_id = a.approval_id AND v.viewer = a.approver AND v.at <= a.decided_at
    UNION ALL
    SELECT a.tool, a.rule, i.person, a.ended, a.voided, extract(epoch FROM d.decided_at - v.at)::float8, a.words,
           d.decided_at, d.through, v.at, d.verdict
    FROM involved i
    JOIN asked a USING (approval_id)
    LEFT JOIN decisions d ON d.approval_id = i.approval_id AND d.approver = i.person
    LEFT JOIN views v ON v.approval_id = i.approval_id AND v.viewer = i.person
        AND (d.decided_at IS NULL OR v.at <= d.decided_at)
)
SELECT tool, rule, person, count(ended) AS asked,
       count(*) FILTER (WHERE verdict = 'approve') AS approved,
       count(*) FILTER (WHERE verdict = 'deny') AS denied,
       count(*) FILTER (WHERE verdict IS NULL AND ended = 'expired') AS expired,
       count(*) FILTER (WHERE verdict IS NULL AND ended = 'withdrawn') AS withdrawn,
       count(*) FILTER (WHERE verdict IS NULL AND ended = 'open') AS waiting,
       count(*) FILTER (WHERE verdict = 'approve' AND voided) AS voided,
       percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS median_seconds,
       percentile_cont(0.9) WITHIN GROUP (ORDER BY seconds) AS p90_seconds,
       count(*) FILTER (WHERE through = 'api') AS through_api,
       count(*) FILTER (WHERE verdict IS NOT NULL AND through IS DISTINCT FROM 'api' AND opened_at IS NULL) AS unopened,
       count(*) FILTER (WHERE verdict IS NOT NULL AND through IS DISTINCT FROM 'api' AND words IS NOT NULL
                          AND opened_at IS NOT NULL) AS timed,
       count(*) FILTER (WHERE verdict IS NOT NULL AND through IS DISTINCT FROM 'api'
                          AND extract(epoch FROM decided_at - opened_at) < words * $6::float8) AS too_quick
FROM look GROUP BY GROUPING SETS ((person), (person, tool), (person, tool, rule))
HAVING person IS NULL OR GROUPING(tool) = 1
ORDER BY tool NULLS FIRST, rule NULLS FIRST, person NULLS FIRST

-- name: gated
-- What the policy said to calls by the part of the period they were asked for in, without the tools in $5, which only
-- read; and what waits for a person right now. A part is $6 seconds: days of a session's zone may be longer or shorter.
SELECT s.start, coalesce(c.held, 0) AS held, coalesce(c.passed, 0) AS passed, coalesce(c.refused, 0) AS refused, q.*
FROM generate_series($2::timestamptz, $3::timestamptz - interval '1 microsecond', make_interval(secs => $6)) AS s (start)
LEFT JOIN (
    SELECT date_bin(make_interval(secs => $6), created_at, $2::timestamptz) AS start, count(*) FILTER (WHERE verdict = 'hold') AS held,
           count(*) FILTER (WHERE verdict IN ('free', 'notify')) AS passed,
           count(*) FILTER (WHERE verdict = 'refuse') AS refused
    FROM calls
    WHERE ($1::text IS NULL OR tenant = $1) AND created_at >= $2 AND created_at < $3
      AND ($4::text IS NULL OR tool = $4) AND tool <> ALL($5::text[])
    GROUP BY 1
) c USING (start)
CROSS JOIN (
    SELECT count(*) AS waiting, count(*) FILTER (WHERE expires_at < now() + interval '1 hour') AS due_soon,
           min(requested_at) AS oldest
    FROM approvals WHERE ($1::text IS NULL OR tenant = $1) AND status = 'open' AND ($4::text IS NULL OR tool = $4)
) q
ORDER BY s.start

-- name: by_tool
-- How often each tool was called in a period, and what became of that.
SELECT tool, count(*) AS calls, count(*) FILTER (WHERE verdict = 'hold') AS held,
       count(*) FILTER (WHERE verdict = 'refuse') AS refused, count(*) FILTER (WHERE status = 'executed') AS executed
FROM calls WHERE ($1::text IS NULL OR tenant = $1) AND created_at >= $2 AND created_at < $3 GROUP BY tool
