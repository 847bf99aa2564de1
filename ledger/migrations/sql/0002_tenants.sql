-- Whose row it is stands in the row itself.
ALTER TABLE decisions ADD COLUMN tenant text;
UPDATE decisions d SET tenant = a.tenant FROM approvals a WHERE a.approval_id = d.approval_id;
ALTER TABLE decisions ALTER COLUMN tenant SET NOT NULL;
ALTER TABLE views ADD COLUMN tenant text;
UPDATE views v SET tenant = a.tenant FROM approvals a WHERE a.approval_id = v.approval_id;
ALTER TABLE views ALTER COLUMN tenant SET NOT NULL;
ALTER TABLE sessions ADD COLUMN tenant text;
UPDATE sessions s SET tenant = u.tenant FROM users u WHERE u.username = s.username;
ALTER TABLE sessions ALTER COLUMN tenant SET NOT NULL;

-- These stand for nobody and for everybody.
ALTER TABLE tokens ADD CHECK (tenant NOT IN ('', '*'));
ALTER TABLE users ADD CHECK (tenant NOT IN ('', '*'));
ALTER TABLE runs ADD CHECK (tenant NOT IN ('', '*'));

-- A run ends with the service's token that opened it.
ALTER TABLE runs ADD COLUMN opened_with text REFERENCES tokens (token_id);

-- A session sees and writes the rows of the tenant in its setting `counterseal.tenant`, with `*` those of every tenant,
-- and without the setting none. Forced, so that it holds for the owner too; only superusers pass it by.
DO $$
DECLARE
    guarded text;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['events', 'data_keys', 'runs', 'tokens', 'users', 'sessions', 'calls', 'approvals',
                                   'decisions', 'views', 'uses', 'diagnostics']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', guarded);
        EXECUTE format('CREATE POLICY tenants ON %I USING (current_setting(''counterseal.tenant'', true) IN (tenant, ''*''))',
                       guarded);
    END LOOP;
END
$$;

-- The service needs fewer rights than the owner who migrates. Where the owner may not make roles, whoever may makes this
-- one before.
DO $$
BEGIN
    CREATE ROLE counterseal_service NOLOGIN;
EXCEPTION
    WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
END
$$;

DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        RAISE WARNING 'there is no role counterseal_service: the service has to run as the owner of the tables';
        RETURN;
    END IF;
    GRANT SELECT, INSERT ON events, decisions, views, policies TO counterseal_service;
    GRANT SELECT, INSERT, UPDATE ON calls, approvals, uses, data_keys, runs, tokens, users TO counterseal_service;
    GRANT SELECT, INSERT, DELETE ON sessions, diagnostics TO counterseal_service;
    GRANT SELECT ON alembic_version TO counterseal_service;
    -- Whatever comes later can be appended to; more is granted where it is made.
    ALTER DEFAULT PRIVILEGES GRANT SELECT, INSERT ON TABLES TO counterseal_service;
END
$$;
