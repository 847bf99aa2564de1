-- Kill switches that are off; what is not here is on. A switch of the tenant `*` covers every tenant's calls.
CREATE TABLE switches (
    tenant text NOT NULL,
    name text NOT NULL,
    off_at timestamptz NOT NULL,
    off_by text NOT NULL,
    reason text NOT NULL,
    deadlines text NOT NULL CHECK (deadlines IN ('pause', 'run')),
    PRIMARY KEY (tenant, name)
);

ALTER TABLE switches ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON switches USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));
-- Everyone's are seen by each, and turned by none of them.
CREATE POLICY everyones ON switches FOR SELECT USING (tenant = '*' AND current_setting('counterseal.tenant', true) <> '');

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON switches TO counterseal_service;
    END IF;
END
$$;
