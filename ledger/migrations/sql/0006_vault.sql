-- Credentials of remote systems, sealed (AES-256-GCM) under a key derived from the master key. `*`: every tenant, any tool.
CREATE TABLE credentials (
    credential_id text PRIMARY KEY,
    tenant text NOT NULL,
    system text NOT NULL,
    tool text NOT NULL,
    sealed bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_by text NOT NULL,
    retired_at timestamptz
);
CREATE INDEX credentials_in_use ON credentials (system, tenant, tool, created_at DESC) WHERE retired_at IS NULL;

ALTER TABLE credentials ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON credentials USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));
-- Everyone's serve each tenant, and none of them changes them.
CREATE POLICY everyones ON credentials FOR SELECT
    USING (tenant = '*' AND current_setting('counterseal.tenant', true) <> '');

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE ON credentials TO counterseal_service;
    END IF;
END
$$;
