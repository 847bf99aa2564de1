-- The ledger. Bodies are AES-256-GCM ciphertext (nonce first); plain columns hold no personal text.
CREATE TABLE events (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    tenant text NOT NULL,
    request_id text NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    type text NOT NULL,
    version smallint NOT NULL,
    at timestamptz NOT NULL,
    key_id text NOT NULL,
    body bytea NOT NULL,
    previous bytea NOT NULL CHECK (octet_length(previous) = 32),
    hash bytea NOT NULL CHECK (octet_length(hash) = 32),
    UNIQUE (request_id, n)
);

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'the ledger is append-only';
END
$$;

CREATE TRIGGER events_append_only BEFORE UPDATE OR DELETE ON events
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_no_truncate BEFORE TRUNCATE ON events
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- One data key per tenant and customer, wrapped by the master key; destroying it erases the customer.
CREATE TABLE data_keys (
    key_id text PRIMARY KEY,
    tenant text NOT NULL,
    subject text NOT NULL,
    wrapped bytea,
    created_at timestamptz NOT NULL DEFAULT now(),
    destroyed_at timestamptz,
    UNIQUE (tenant, subject)
);

CREATE TABLE runs (
    run_id text PRIMARY KEY,
    tenant text NOT NULL,
    agent_id text NOT NULL,
    actor_id text NOT NULL,
    customer_id text NOT NULL,
    tools text[] NOT NULL,
    opened_by text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL,
    revoked_at timestamptz
);

-- Bearer tokens of every kind, by hash only.
CREATE TABLE tokens (
    token_id text PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    kind text NOT NULL CHECK (kind IN ('service', 'run', 'approver', 'operator')),
    tenant text NOT NULL,
    principal text NOT NULL,
    run_id text REFERENCES runs,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz,
    revoked_at timestamptz
);

CREATE TABLE users (
    tenant text NOT NULL,
    username text NOT NULL CHECK (username = lower(username)),
    display_name text NOT NULL,
    password_hash text NOT NULL,
    roles text[] NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    disabled_at timestamptz,
    PRIMARY KEY (username)
);

CREATE TABLE sessions (
    hash bytea PRIMARY KEY,
    username text NOT NULL REFERENCES users (username),
    csrf text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    expires_at timestamptz NOT NULL
);

-- Projections: folds over events, rebuilt from them when needed.
CREATE TABLE calls (
    request_id text PRIMARY KEY,
    tenant text NOT NULL,
    run_id text NOT NULL,
    agent_id text NOT NULL,
    customer_id text NOT NULL,
    tool text NOT NULL,
    workflow_id text NOT NULL UNIQUE,
    arguments_digest text NOT NULL,
    status text NOT NULL,
    code text NOT NULL,
    verdict text,
    rule text,
    policy_version text,
    approval_id text,
    operation_id text UNIQUE,
    intended_at timestamptz,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    n integer NOT NULL,
    hash bytea NOT NULL,
    key_id text NOT NULL,
    details bytea NOT NULL
);
CREATE INDEX calls_open ON calls (updated_at) WHERE status IN ('in_progress', 'pending_approval', 'outcome_unknown');
CREATE INDEX calls_by_tenant ON calls (tenant, created_at DESC, request_id);

CREATE TABLE approvals (
    approval_id text PRIMARY KEY,
    request_id text NOT NULL REFERENCES calls,
    tenant text NOT NULL,
    tool text NOT NULL,
    status text NOT NULL CHECK (status IN ('open', 'granted', 'denied', 'expired', 'voided', 'withdrawn')),
    approvers text NOT NULL,
    rule text NOT NULL,
    policy_version text NOT NULL,
    action_digest text NOT NULL,
    requested_at timestamptz NOT NULL,
    expires_at timestamptz NOT NULL,
    closed_at timestamptz,
    key_id text NOT NULL,
    card bytea NOT NULL
);
CREATE INDEX approvals_open ON approvals (tenant, expires_at, approval_id) WHERE status = 'open';
CREATE INDEX approvals_closed ON approvals (tenant, closed_at DESC, approval_id) WHERE status <> 'open';
CREATE INDEX approvals_by_request ON approvals (request_id);

-- People's decisions, committed before they are delivered to the workflow. `body` holds the reason and the signed form.
CREATE TABLE decisions (
    decision_id text PRIMARY KEY,
    approval_id text NOT NULL REFERENCES approvals,
    request_id text NOT NULL,
    approver text NOT NULL,
    verdict text NOT NULL CHECK (verdict IN ('approve', 'deny')),
    decided_at timestamptz NOT NULL,
    key_id text NOT NULL,
    body bytea NOT NULL
);
CREATE UNIQUE INDEX decisions_one_each ON decisions (approval_id, approver);

CREATE TABLE views (
    approval_id text NOT NULL REFERENCES approvals,
    viewer text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (approval_id, viewer)
);

-- What calls have taken from what is finite: one row per call and subject (a run, a tool, a customer, a payment …).
-- `held` until the outcome is known, then `spent` or `released`.
CREATE TABLE uses (
    request_id text NOT NULL,
    tenant text NOT NULL,
    tool text NOT NULL,
    subject text NOT NULL,
    amount bigint NOT NULL,
    at timestamptz NOT NULL,
    changed_at timestamptz NOT NULL,
    state text NOT NULL CHECK (state IN ('held', 'spent', 'released')),
    PRIMARY KEY (request_id, subject)
);
CREATE INDEX uses_live ON uses (tenant, subject, tool, at) INCLUDE (amount, state, changed_at) WHERE state <> 'released';

-- The protected record of what went wrong, by request id; no agent route reads it.
CREATE TABLE diagnostics (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    request_id text NOT NULL,
    tenant text NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    key_id text NOT NULL,
    body bytea NOT NULL
);
CREATE INDEX diagnostics_by_request ON diagnostics (request_id, id);

CREATE TABLE policies (
    version text PRIMARY KEY,
    source text NOT NULL,
    published_at timestamptz NOT NULL DEFAULT now()
);
