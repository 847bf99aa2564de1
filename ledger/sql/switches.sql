-- name: off_switches
-- The switches that are off for a tenant (of everyone, when it is null), those of everyone included.
SELECT tenant, name, off_at, off_by, reason, deadlines FROM switches
WHERE $1::text IS NULL OR tenant IN ($1, '*') ORDER BY off_at, tenant, name

-- name: first_off
-- The first of these switches that is off for a tenant.
SELECT min(name) FROM switches WHERE tenant IN ($1, '*') AND name = ANY($2::text[])

-- name: covering
-- Those of these switches that are off for a tenant, longest first.
SELECT tenant, name, off_at, off_by, reason, deadlines FROM switches
WHERE tenant IN ($1, '*') AND name = ANY($2::text[]) ORDER BY off_at, tenant, name

-- name: turn_off
-- Turning off what is off already changes who, why, and what becomes of deadlines, not since when; no row when it changes
-- nothing. The switch is locked then all the same.
INSERT INTO switches AS s (tenant, name, off_at, off_by, reason, deadlines)
VALUES ($1, $2, clock_timestamp(), $3, $4, $5)
ON CONFLICT (tenant, name) DO UPDATE SET off_by = $3, reason = $4, deadlines = $5
    WHERE (s.off_by, s.reason, s.deadlines) IS DISTINCT FROM ($3, $4, $5)
RETURNING off_at

-- name: off_since
SELECT off_at FROM switches WHERE tenant = $1 AND name = $2

-- name: turn_on
DELETE FROM switches WHERE tenant = $1 AND name = $2 RETURNING off_at, deadlines

-- name: pauses
-- Whether the deadlines of a call are paused.
SELECT EXISTS (SELECT FROM switches
               WHERE tenant IN ($1, '*') AND name = ANY($2::text[]) AND deadlines = 'pause')

-- name: paused
-- What waits and had its deadline paused since then, and how much longer it waits for that, so that it has as long left as
-- when that began. Where another switch pauses it too, only the time before that one was turned off is added: when it is
-- turned on, the rest is.
SELECT a.request_id, a.approval_id, p.added
FROM approvals a JOIN calls c USING (request_id) CROSS JOIN LATERAL (
    SELECT least(clock_timestamp(), min(o.off_at)) - $5::timestamptz AS added
    FROM jsonb_to_recordset($6) AS o (tenant text, tools jsonb, agent_id text, run_id text, off_at timestamptz)
    WHERE (o.tenant IS NULL OR c.tenant = o.tenant) AND (o.tools IS NULL OR o.tools ? c.tool)
      AND (o.agent_id IS NULL OR c.agent_id = o.agent_id) AND (o.run_id IS NULL OR c.run_id = o.run_id)
) p
WHERE a.status = 'open' AND p.added > interval '0'
  AND ($1::text IS NULL OR a.tenant = $1) AND ($2::text[] IS NULL OR a.tool = ANY($2))
  AND ($3::text IS NULL OR c.agent_id = $3) AND ($4::text IS NULL OR c.run_id = $4)
ORDER BY a.request_id

-- name: covered
-- What a switch would stop right now: parked, about to run, looked up, and the open runs that could ask for more.
SELECT (SELECT count(*) FROM calls c WHERE c.status = 'pending_approval'
          AND ($1::text IS NULL OR c.tenant = $1) AND ($2::text[] IS NULL OR c.tool = ANY($2))
          AND ($3::text IS NULL OR c.agent_id = $3) AND ($4::text IS NULL OR c.run_id = $4)) AS parked,
       (SELECT count(*) FROM calls c WHERE c.status = 'in_progress' AND c.intended_at IS NULL
          AND ($1::text IS NULL OR c.tenant = $1) AND ($2::text[] IS NULL OR c.tool = ANY($2))
          AND ($3::text IS NULL OR c.agent_id = $3) AND ($4::text IS NULL OR c.run_id = $4)) AS unsent,
       (SELECT count(*) FROM calls c WHERE c.status = 'outcome_unknown'
          AND ($1::text IS NULL OR c.tenant = $1) AND ($2::text[] IS NULL OR c.tool = ANY($2))
          AND ($3::text IS NULL OR c.agent_id = $3) AND ($4::text IS NULL OR c.run_id = $4)) AS unknown,
       (SELECT count(*) FROM runs r WHERE r.revoked_at IS NULL AND r.expires_at > now()
          AND ($1::text IS NULL OR r.tenant = $1) AND ($2::text[] IS NULL OR r.tools && $2)
          AND ($3::text IS NULL OR r.agent_id = $3) AND ($4::text IS NULL OR r.run_id = $4)) AS runs
