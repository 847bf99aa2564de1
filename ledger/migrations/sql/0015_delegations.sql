-- A right that somebody gave another for a time: to decide as they may. None is deleted; a revoked one ended then.
CREATE TABLE delegations (
    delegation_id text PRIMARY KEY DEFAULT 'dlg_' || replace(gen_random_uuid()::text, '-', ''),
    tenant text NOT NULL,
    delegator text NOT NULL REFERENCES users (username),
    delegate text NOT NULL REFERENCES users (username),
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL,
    reason text NOT NULL,
    created_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    revoked_at timestamptz,
    CHECK (delegator <> delegate),
    CHECK (ends_at > starts_at AND ends_at <= starts_at + interval '90 days')
);
CREATE INDEX delegations_by_delegate ON delegations (delegate, ends_at) WHERE revoked_at IS NULL;
CREATE INDEX delegations_by_delegator ON delegations (delegator, ends_at);

ALTER TABLE delegations ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON delegations USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));

-- For whom somebody decided who used a right that was lent to them.
ALTER TABLE decisions ADD COLUMN on_behalf_of text;

-- Accounts with what was lent to them and is theirs now. What was lent is not lent on: of the delegator only what is
-- their own counts.
CREATE VIEW standings WITH (security_invoker = true) AS
SELECT p.*, (
    SELECT coalesce(json_agg(json_build_object(
        'username', o.username, 'display_name', o.display_name, 'person_id', o.person_id, 'names', o.names,
        'roles', o.roles, 'grants', o.grants::json) ORDER BY d.ends_at, d.delegation_id), '[]')
    FROM delegations d JOIN people o ON o.username = d.delegator AND o.tenant = d.tenant
    WHERE d.delegate = p.username AND d.tenant = p.tenant AND d.revoked_at IS NULL AND o.disabled_at IS NULL
      AND d.starts_at <= statement_timestamp() AND statement_timestamp() < d.ends_at
)::text AS lent
FROM people p;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE ON delegations TO counterseal_service;
        GRANT SELECT ON standings TO counterseal_service;
    END IF;
END
$$;
