-- Which policy is in force, where processes decide by what was published: the last one. `token` says so, signed, and names
-- the whole digest of the document. A policy holds for every tenant, so none of this is a tenant's.
CREATE TABLE publications (
    number bigint PRIMARY KEY CHECK (number > 0),
    version text NOT NULL REFERENCES policies (version),
    token text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);

-- What people propose to put in force in the place of publication `base` (0: of none), and what others say to it.
CREATE TABLE policy_proposals (
    proposal_id text PRIMARY KEY,
    version text NOT NULL REFERENCES policies (version),
    base bigint NOT NULL CHECK (base >= 0),
    reason text NOT NULL,
    proposed_at timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX policy_proposals_by_time ON policy_proposals (proposed_at);
CREATE TABLE policy_votes (
    proposal_id text NOT NULL REFERENCES policy_proposals (proposal_id),
    username text NOT NULL,
    vote text NOT NULL CHECK (vote IN ('agree', 'object')),
    reason text NOT NULL,
    voted_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (proposal_id, username)
);

DO $$
DECLARE
    kept text;
BEGIN
    FOREACH kept IN ARRAY ARRAY['policies', 'publications', 'policy_proposals', 'policy_votes']
    LOOP
        EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()',
                       kept || '_append_only', kept);
        EXECUTE format('CREATE TRIGGER %I BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()',
                       kept || '_no_truncate', kept);
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT ON publications, policy_proposals, policy_votes TO counterseal_service;
    END IF;
END
$$;
