-- What the inbox is filtered by, of what the encrypted card holds as well. `requesters`: the names, normalised, of those on
-- the requester's side; `given`: how many approvals it has; `order_index`: the order's id as a keyed fingerprint, so that it
-- can be looked for and not read. What waits already has of this what other tables know in plain.
ALTER TABLE approvals
    ADD COLUMN agent_id text,
    ADD COLUMN requesters text[] NOT NULL DEFAULT '{}',
    ADD COLUMN escalates_to text,
    ADD COLUMN escalates_at timestamptz,
    ADD COLUMN amount bigint,
    ADD COLUMN currency text,
    ADD COLUMN given integer NOT NULL DEFAULT 0,
    ADD COLUMN order_index text;
UPDATE approvals a
SET agent_id = c.agent_id,
    requesters = coalesce((SELECT ARRAY[lower(normalize(r.agent_id, NFKC)), lower(normalize(r.actor_id, NFKC))]
                           FROM runs r WHERE r.run_id = c.run_id), '{}'),
    given = (SELECT count(*) FROM decisions d WHERE d.approval_id = a.approval_id AND d.verdict = 'approve')
FROM calls c WHERE c.request_id = a.request_id;
ALTER TABLE approvals ALTER COLUMN agent_id SET NOT NULL;

CREATE INDEX approvals_by_order ON approvals (tenant, order_index, requested_at DESC) WHERE order_index IS NOT NULL;
CREATE INDEX approvals_by_agent ON approvals (tenant, agent_id, expires_at, approval_id) WHERE status = 'open';
-- With all that is counted, so that counting what waits reads no card.
DROP INDEX approvals_open;
CREATE INDEX approvals_open ON approvals (tenant, expires_at, approval_id)
    INCLUDE (tool, approvers, agent_id, escalates_to, escalates_at, amount, currency, given, requesters)
    WHERE status = 'open';
