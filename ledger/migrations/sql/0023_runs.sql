-- What a run did before decides what it may do next.
CREATE INDEX calls_by_run ON calls (run_id);

-- By run and tool: when a call that ran or still may was last asked for, and when one was last carried out.
CREATE VIEW doings WITH (security_invoker = true) AS
SELECT run_id, tool, max(created_at) AS asked_at,
       max(coalesce(intended_at, created_at)) FILTER (WHERE status = 'executed') AS executed_at
FROM calls
WHERE status NOT IN ('refused', 'denied', 'expired', 'cancelled', 'failed')
GROUP BY run_id, tool;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT ON doings TO counterseal_service;
    END IF;
END $$;
