-- What became of an effect beyond its call's status: its id at the remote system, why a person has to settle it, and when
-- a settled one is looked at again.
ALTER TABLE calls ADD COLUMN remote_id text, ADD COLUMN review text, ADD COLUMN recheck_at timestamptz;
CREATE INDEX calls_by_remote ON calls (remote_id) WHERE remote_id IS NOT NULL;
CREATE INDEX calls_to_recheck ON calls (recheck_at) WHERE recheck_at IS NOT NULL;
CREATE INDEX calls_in_review ON calls (tenant, intended_at) WHERE review IS NOT NULL;

-- What operators are told without having asked, until one of them has seen to it.
CREATE TABLE alerts (
    alert_id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    request_id text NOT NULL,
    kind text NOT NULL,
    at timestamptz NOT NULL,
    seen_at timestamptz,
    seen_by text
);
CREATE INDEX alerts_open ON alerts (tenant, at DESC) WHERE seen_at IS NULL;
CREATE INDEX alerts_by_request ON alerts (request_id);

ALTER TABLE alerts ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON alerts USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE ON alerts TO counterseal_service;
    END IF;
END
$$;
