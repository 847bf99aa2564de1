-- A role for each kind of process, with the rights that it uses and no other. They are groups: nobody signs in as one, a
-- process signs in as a member of one. Where the owner may not make roles, whoever may makes them before; roles belong to
-- the whole server, and another of its databases may have them already.
DO $$
DECLARE
    made text;
BEGIN
    FOREACH made IN ARRAY ARRAY['counterseal_api', 'counterseal_worker', 'counterseal_sealer', 'counterseal_readonly']
    LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = made) THEN
            CONTINUE;
        END IF;
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', made);
        EXCEPTION
            WHEN duplicate_object OR unique_violation OR insufficient_privilege THEN NULL;
        END;
        IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = made) THEN
            RAISE WARNING 'there is no role %: make it, and migrate a fresh database, or use counterseal_service', made;
        END IF;
    END LOOP;
END
$$;

-- The HTTP API: it signs people in, opens runs and records what people decide. It admits no call, reads no credential of
-- a remote system, seals nothing and prunes nothing.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_api') THEN
        RETURN;
    END IF;
    GRANT SELECT ON alembic_version, retention, seals, sealing, decision_keys, leases, people, standings, doings
        TO counterseal_api;
    GRANT SELECT (key_id, verifier_key, created_at, retired_at) ON seal_keys TO counterseal_api;
    GRANT SELECT (credential_id, tenant, system, tool, created_at, created_by, retired_at) ON credentials TO counterseal_api;
    GRANT SELECT, INSERT ON events, decisions, views, data_keys, policies, publications, policy_proposals, policy_votes,
        diagnostics TO counterseal_api;
    GRANT SELECT, UPDATE ON calls TO counterseal_api;
    -- One statement appends and moves every projection, so it needs the rights on all of them.
    GRANT SELECT, INSERT, UPDATE ON approvals, uses, alerts, notices, runs, tokens, users, identities, delegations
        TO counterseal_api;
    GRANT SELECT, INSERT, UPDATE, DELETE ON sessions, sign_ins, attempts, grants, passkeys, passkey_nonces, claims, switches
        TO counterseal_api;
END
$$;

-- The workers: they admit calls, send effects and look them up, heal, tell and prune. They make no person, no token and no
-- switch that is on again, publish no policy and seal nothing; passwords and the hashes of tokens they do not see.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_worker') THEN
        RETURN;
    END IF;
    GRANT SELECT ON alembic_version, retention, seals, sealing, decision_keys, runs, grants, identities, delegations, people,
        standings, doings, credentials, publications, policy_proposals, policy_votes, views TO counterseal_worker;
    GRANT SELECT (key_id, verifier_key, created_at, retired_at) ON seal_keys TO counterseal_worker;
    GRANT SELECT (tenant, username, display_name, roles, created_at, disabled_at, person_id, also_known_as) ON users
        TO counterseal_worker;
    GRANT SELECT (token_id, kind, tenant, principal, run_id, created_at, expires_at, revoked_at, owner) ON tokens
        TO counterseal_worker;
    GRANT SELECT, INSERT ON events, decisions, data_keys, policies TO counterseal_worker;
    GRANT UPDATE (body, body_hash) ON events TO counterseal_worker;
    GRANT SELECT, INSERT, UPDATE ON calls, approvals, uses, alerts, switches, leases TO counterseal_worker;
    GRANT SELECT, INSERT, UPDATE, DELETE ON notices TO counterseal_worker;
    GRANT SELECT, INSERT, DELETE ON diagnostics TO counterseal_worker;
END
$$;

-- The sealer: it reads the hashes of events, never their bodies, and appends seals.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_sealer') THEN
        RETURN;
    END IF;
    GRANT SELECT ON alembic_version TO counterseal_sealer;
    GRANT SELECT (id, tenant, request_id, n, type, at, hash) ON events TO counterseal_sealer;
    GRANT SELECT (tenant, request_id, n, hash, updated_at) ON calls TO counterseal_sealer;
    GRANT SELECT, INSERT ON seals, seal_keys TO counterseal_sealer;
    GRANT UPDATE (retired_at) ON seal_keys TO counterseal_sealer;
    GRANT SELECT, UPDATE (settled) ON sealing TO counterseal_sealer;
    GRANT SELECT, INSERT, UPDATE ON leases TO counterseal_sealer;
END
$$;

-- Whoever only looks: reports, exports and verifying. No secret of any kind, not even a sealed one, save the wrapped keys
-- that open events for who has the master key.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_readonly') THEN
        RETURN;
    END IF;
    GRANT SELECT ON alembic_version, events, data_keys, calls, approvals, decisions, views, uses, runs, alerts, switches,
        notices, claims, delegations, grants, identities, people, standings, doings, retention, seals, sealing, decision_keys,
        policies, publications, policy_proposals, policy_votes, leases TO counterseal_readonly;
    GRANT SELECT (key_id, verifier_key, created_at, retired_at) ON seal_keys TO counterseal_readonly;
    GRANT SELECT (tenant, username, display_name, roles, created_at, disabled_at, person_id, also_known_as) ON users
        TO counterseal_readonly;
    GRANT SELECT (token_id, kind, tenant, principal, run_id, created_at, expires_at, revoked_at, owner) ON tokens
        TO counterseal_readonly;
    GRANT SELECT (credential_id, tenant, system, tool, created_at, created_by, retired_at) ON credentials
        TO counterseal_readonly;
END
$$;
