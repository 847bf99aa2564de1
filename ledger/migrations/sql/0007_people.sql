-- A person is an issuer and a subject, or whom an operator says an account belongs to; never a name.
ALTER TABLE users ALTER COLUMN password_hash DROP NOT NULL;
ALTER TABLE users
    ADD COLUMN person_id text NOT NULL DEFAULT 'per_' || replace(gen_random_uuid()::text, '-', ''),
    ADD COLUMN also_known_as text[] NOT NULL DEFAULT '{}';
CREATE INDEX users_by_person ON users (person_id);

-- What an OpenID provider calls somebody, and every name that it ever gave for them: names only take
-- rights away, so none is forgotten.
CREATE TABLE identities (
    tenant text NOT NULL,
    issuer text NOT NULL,
    subject text NOT NULL,
    username text NOT NULL REFERENCES users (username),
    names text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    seen_at timestamptz,
    PRIMARY KEY (issuer, subject)
);
CREATE INDEX identities_by_username ON identities (username);

-- How far a role of somebody goes, where it does not go all the way. `tool` is a tool's name or `*`; without `up_to`
-- (minor units) any amount.
CREATE TABLE grants (
    tenant text NOT NULL,
    username text NOT NULL REFERENCES users (username),
    role text NOT NULL,
    tool text NOT NULL,
    currency text NOT NULL CHECK (currency ~ '^([A-Z]{3}|\*)$'),
    up_to bigint CHECK (up_to >= 0),
    CHECK ((currency = '*') = (up_to IS NULL)),
    PRIMARY KEY (username, role, tool, currency)
);

-- A sign-in at the provider that was begun here: by the hash of what the browser holds. Nothing is lost with it.
CREATE UNLOGGED TABLE sign_ins (
    hash bytea PRIMARY KEY,
    nonce text NOT NULL,
    verifier text NOT NULL,
    return_to text NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX sign_ins_by_expiry ON sign_ins (expires_at);

-- Which provider a session came from; none for a password's.
ALTER TABLE sessions ADD COLUMN issuer text;

-- Who answers for a service's agents, and for a run that was opened by it.
ALTER TABLE tokens ADD COLUMN owner text;
ALTER TABLE runs ADD COLUMN owner text;

DO $$
DECLARE
    guarded text;
BEGIN
    FOREACH guarded IN ARRAY ARRAY['identities', 'grants']
    LOOP
        EXECUTE format('ALTER TABLE %I ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY', guarded);
        EXECUTE format('CREATE POLICY tenants ON %I USING (current_setting(''counterseal.tenant'', true) IN (tenant, ''*''))',
                       guarded);
    END LOOP;
END
$$;

-- An account with what counts when its person decides: every name of the person, whichever account has it, and how far
-- the account's roles go. Read with the rights, and the tenant, of whoever asks.
CREATE VIEW people WITH (security_invoker = true) AS
SELECT u.tenant, u.username, u.display_name, u.roles, u.disabled_at, u.person_id,
       ARRAY(
           SELECT o.username FROM users o WHERE o.person_id = u.person_id
           UNION SELECT unnest(o.also_known_as) FROM users o WHERE o.person_id = u.person_id
           UNION SELECT unnest(i.names) FROM users o JOIN identities i USING (username) WHERE o.person_id = u.person_id
       ) AS names,
       (SELECT coalesce(json_agg(json_build_object('role', g.role, 'tool', g.tool, 'currency', g.currency, 'up_to', g.up_to)
                                 ORDER BY g.role, g.tool, g.currency), '[]')
        FROM grants g WHERE g.username = u.username)::text AS grants
FROM users u;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE ON identities TO counterseal_service;
        GRANT SELECT, INSERT, UPDATE, DELETE ON grants TO counterseal_service;
        GRANT SELECT, INSERT, DELETE ON sign_ins TO counterseal_service;
        GRANT SELECT ON people TO counterseal_service;
    END IF;
END
$$;
