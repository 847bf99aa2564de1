-- name: calls_of_customer
-- Calls of these tools for a customer of a tenant, newest first, without one; what waits for people is told apart from them.
SELECT request_id, tenant, status, approval_id, created_at, key_id, details FROM calls
WHERE tenant = $1 AND customer_id = $2 AND tool = ANY($3::text[]) AND request_id <> $4
    AND status <> 'pending_approval'
ORDER BY created_at DESC, request_id LIMIT $5

-- name: alike
-- What else waits for the same customer, and then of the same agent and tool, oldest deadline first; of each as many as are
-- counted at most.
WITH alike AS (
    (SELECT approval_id, true AS of_customer, expires_at FROM approvals
     WHERE tenant = $1 AND status = 'open' AND customer_id = $3 AND approval_id <> $2
     ORDER BY expires_at, approval_id LIMIT $6)
    UNION ALL
    (SELECT approval_id, false, expires_at FROM approvals
     WHERE tenant = $1 AND status = 'open' AND agent_id = $4 AND tool = $5 AND customer_id <> $3
     ORDER BY expires_at, approval_id LIMIT $6)
), first AS (
    SELECT *, count(*) OVER () AS total FROM alike ORDER BY NOT of_customer, expires_at, approval_id LIMIT $7
)
SELECT a.*, f.of_customer, f.total FROM first f JOIN approvals a USING (approval_id)
ORDER BY NOT f.of_customer, f.expires_at, f.approval_id
