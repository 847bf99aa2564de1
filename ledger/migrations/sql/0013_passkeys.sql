-- Public keys of people's authenticators (WebAuthn). `public_key` is a COSE_Key; `sign_count` the authenticator's own.
CREATE TABLE passkeys (
    credential_id bytea PRIMARY KEY,
    tenant text NOT NULL,
    username text NOT NULL REFERENCES users (username),
    name text NOT NULL,
    public_key bytea NOT NULL,
    sign_count bigint NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    used_at timestamptz
);
CREATE INDEX passkeys_by_username ON passkeys (username, created_at);

-- What a passkey is asked to sign is made of one of these, once. Nothing is lost with them.
CREATE UNLOGGED TABLE passkey_nonces (
    nonce text PRIMARY KEY,
    tenant text NOT NULL,
    username text NOT NULL,
    purpose text NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX passkey_nonces_by_expiry ON passkey_nonces (expires_at);

ALTER TABLE decisions DROP CONSTRAINT decisions_proof_check,
    ADD CONSTRAINT decisions_proof_check CHECK (proof IN ('password', 'sign_in', 'passkey'));

DO $$
DECLARE
    guarded text;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['passkeys', 'passkey_nonces']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', guarded);
        EXECUTE format('CREATE POLICY tenants ON %I USING (current_setting(''counterseal.tenant'', true) IN (tenant, ''*''))',
                       guarded);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON passkeys, passkey_nonces TO counterseal_service;
    END IF;
END
$$;
