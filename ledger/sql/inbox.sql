-- name: waiting
-- What waits and fits a filter, oldest deadline first, after a cursor ($13, $14), without the agents in $15. The filter:
-- tool, group that may decide now, agent, whether it was approved by one and waits for another, an amount at least, and
-- whether somebody may decide it: their groups ($9), and those that go for one tool (group/tool, $10); their names; their
-- account. The index has all of that: cards are read of the page alone.
SELECT * FROM approvals WHERE approval_id IN (
    SELECT approval_id FROM approvals a
    WHERE tenant = $1 AND status = 'open' AND (expires_at, approval_id) > ($13::timestamptz, $14::text)
      AND ($2::text IS NULL OR tool = $2)
      AND ($3::text IS NULL OR approvers = $3 OR (escalates_to = $3 AND escalates_at <= now()))
      AND ($4::text IS NULL OR agent_id = $4)
      AND (NOT $5::boolean OR given > 0)
      AND ($6::bigint IS NULL OR (currency = $7::text AND amount >= $6))
      AND (NOT $8::boolean OR (
          (approvers = ANY($9::text[]) OR approvers || '/' || tool = ANY($10::text[])
           OR (escalates_at <= now() AND (escalates_to = ANY($9) OR escalates_to || '/' || tool = ANY($10))))
          AND NOT requesters && $11::text[]
          AND (given = 0 OR 0 = (SELECT count(*) FROM decisions d
                                 WHERE d.approval_id = a.approval_id AND d.approver = $12::text))))
      AND agent_id <> ALL($15::text[])
    ORDER BY expires_at, approval_id LIMIT $16
)
ORDER BY expires_at, approval_id

-- name: counts
-- How much waits: in all, and by each choice of the filter (as in `waiting`) together with the others as they are. Of an
-- agent, where more than $13 of its calls wait: how many in all, how many fit, and the earliest deadline of those.
WITH theirs AS (
    -- What they approved and waits for another. A count is looked up for each that has one; whether there are any would be
    -- found by reading all decisions. Not below, where its cost hides from the planner that hashing is cheaper than sorting.
    SELECT approval_id FROM approvals a
    WHERE tenant = $1 AND status = 'open' AND given > 0
      AND 0 < (SELECT count(*) FROM decisions d WHERE d.approval_id = a.approval_id AND d.approver = $12::text)
), alike AS MATERIALIZED (
    -- What is the same in all that counts is counted once, and gone through as one from there on.
    SELECT tool, approvers, agent_id, currency, given > 0 AS second,
           CASE WHEN escalates_at <= now() THEN escalates_to END AS above,
           ($6::bigint IS NULL OR (currency = $7::text AND amount >= $6)) AS by_amount,
           (approvers = ANY($9::text[]) OR approvers || '/' || tool = ANY($10::text[])
            OR (escalates_at <= now() AND (escalates_to = ANY($9) OR escalates_to || '/' || tool = ANY($10))))
           AND NOT requesters && $11::text[]
           AND (given = 0 OR approval_id <> ALL (ARRAY(SELECT approval_id FROM theirs))) AS mine,
           count(*) AS n, min(expires_at) AS expires_at
    FROM approvals a WHERE tenant = $1 AND status = 'open'
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8
), waits AS MATERIALIZED (
    SELECT *, ($2::text IS NULL OR tool = $2) AS by_tool,
           ($3::text IS NULL OR approvers = $3 OR coalesce(above = $3, false)) AS by_group,
           ($4::text IS NULL OR agent_id = $4) AS by_agent
    FROM alike
), groups AS (
    SELECT approvers AS name, n,
           by_tool AND by_agent AND by_amount AND (second OR NOT $5::boolean) AND (mine OR NOT $8::boolean) AS fits
    FROM waits
    UNION ALL
    SELECT above, n, by_tool AND by_agent AND by_amount AND (second OR NOT $5) AND (mine OR NOT $8)
    FROM waits WHERE above <> approvers
)
SELECT 'all' AS of, NULL AS value, coalesce(sum(n), 0)::bigint AS waiting,
       coalesce(sum(n) FILTER (WHERE by_tool AND by_group AND by_agent AND by_amount AND (second OR NOT $5)
                                 AND (mine OR NOT $8)), 0)::bigint AS fitting,
       coalesce(sum(n) FILTER (WHERE by_tool AND by_group AND by_agent AND by_amount AND (second OR NOT $5)
                                 AND mine), 0)::bigint AS mine,
       coalesce(sum(n) FILTER (WHERE by_tool AND by_agent AND by_amount AND (second OR NOT $5)
                                 AND (mine OR NOT $8)), 0)::bigint AS of_any_group,
       coalesce(sum(n) FILTER (WHERE by_tool AND by_group AND by_agent AND by_amount AND second
                                 AND (mine OR NOT $8)), 0)::bigint AS second,
       NULL::timestamptz AS earliest
FROM waits
UNION ALL
SELECT 'tool', tool, sum(n)::bigint,
       coalesce(sum(n) FILTER (WHERE by_group AND by_agent AND by_amount AND (second OR NOT $5)
                                 AND (mine OR NOT $8)), 0)::bigint,
       NULL, NULL, NULL, NULL
FROM waits GROUP BY tool
UNION ALL
SELECT 'group', name, sum(n)::bigint, coalesce(sum(n) FILTER (WHERE fits), 0)::bigint, NULL, NULL, NULL, NULL
FROM groups GROUP BY name
UNION ALL
SELECT 'currency', currency, sum(n)::bigint, NULL, NULL, NULL, NULL, NULL
FROM waits WHERE currency IS NOT NULL GROUP BY currency
UNION ALL
SELECT 'agent', agent_id, sum(n)::bigint,
       coalesce(sum(n) FILTER (WHERE by_tool AND by_group AND by_amount AND (second OR NOT $5)
                                 AND (mine OR NOT $8)), 0)::bigint,
       NULL, NULL, NULL,
       min(expires_at) FILTER (WHERE by_tool AND by_group AND by_amount AND (second OR NOT $5) AND (mine OR NOT $8))
FROM waits GROUP BY agent_id HAVING sum(n) > $13::integer
ORDER BY of, value

-- name: of_order
-- The approvals of a tenant about an order, by its fingerprint: what waits before the rest, then the newest first.
SELECT * FROM approvals WHERE tenant = $1 AND order_index = ANY($2::text[])
ORDER BY status <> 'open', requested_at DESC, approval_id LIMIT $3
