-- The outbox: what people are to be told. Written with the change that it tells of; it names ids alone, and its words are
-- made when it is sent. First `due`, with no channel; then once for every channel that it goes to.
CREATE TABLE notices (
    notice_id text PRIMARY KEY DEFAULT 'ntc_' || replace(gen_random_uuid()::text, '-', ''),
    tenant text NOT NULL,
    topic text NOT NULL,
    request_id text,
    approval_id text,
    alert_id bigint,
    tool text,
    approvers text,
    day date,
    at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    channel text,
    state text NOT NULL DEFAULT 'due' CHECK (state IN ('due', 'sending', 'delivered', 'moot', 'undelivered')),
    started_at timestamptz,
    attempts integer NOT NULL DEFAULT 0,
    problem text,
    closed_at timestamptz,
    CHECK ((state = 'due') = (channel IS NULL))
);
CREATE INDEX notices_due ON notices (due_at) WHERE state = 'due';
CREATE INDEX notices_sending ON notices (at) WHERE state = 'sending';
CREATE INDEX notices_undelivered ON notices (tenant, closed_at DESC) WHERE state = 'undelivered';
CREATE INDEX notices_closed ON notices (closed_at) WHERE closed_at IS NOT NULL;
-- A group's digest of a day goes to a channel once.
CREATE UNIQUE INDEX notices_digest ON notices (tenant, approvers, channel, day) WHERE topic = 'digest';

ALTER TABLE notices ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON notices USING (current_setting('counterseal.tenant', true) IN (tenant, '*'));

-- An alert may be about a channel that takes nothing, in the place of a call. One is open for each channel at a time.
ALTER TABLE alerts ALTER COLUMN request_id DROP NOT NULL;
ALTER TABLE alerts ADD COLUMN channel text, ADD CHECK (num_nonnulls(request_id, channel) = 1);
CREATE UNIQUE INDEX alerts_of_channel ON alerts (tenant, channel) WHERE seen_at IS NULL AND channel IS NOT NULL;

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON notices TO counterseal_service;
    END IF;
END
$$;
