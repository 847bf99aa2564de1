-- Who is reading what waits, so that two people do not read the same. Advice that ends by itself, and no part of the chain.
CREATE TABLE claims (
    approval_id text PRIMARY KEY REFERENCES approvals,
    tenant text NOT NULL,
    username text NOT NULL,
    claimed_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL
);

ALTER TABLE claims ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON claims USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON claims TO counterseal_service;
    END IF;
END
$$;
