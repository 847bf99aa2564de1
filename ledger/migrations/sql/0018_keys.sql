-- A customer's data key may be changed: what is written uses the one that is not retired, what was written names its own.
ALTER TABLE data_keys ADD COLUMN retired_at timestamptz;
ALTER TABLE data_keys DROP CONSTRAINT data_keys_tenant_subject_key;
CREATE UNIQUE INDEX data_keys_current ON data_keys (tenant, subject) WHERE retired_at IS NULL;
CREATE INDEX data_keys_of_subject ON data_keys (tenant, subject);

-- The public keys that decisions are or were signed with (PEM): a former one outlives its master key, so that what it
-- signed can still be shown to somebody who trusts it. They belong to the service, not to a tenant.
CREATE TABLE decision_keys (
    key_id text PRIMARY KEY,
    public_key text NOT NULL,
    kept_at timestamptz NOT NULL DEFAULT now()
);

-- A changed master key wraps the seals' keys anew.
DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT UPDATE (wrapped) ON seal_keys TO counterseal_service;
    END IF;
END
$$;
