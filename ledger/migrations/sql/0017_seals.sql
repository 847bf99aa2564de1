-- What signs seals: the seed of an Ed25519 key, wrapped by the master key. The newest that signs is the one without an end.
CREATE TABLE seal_keys (
    key_id text PRIMARY KEY,
    verifier_key text NOT NULL,
    wrapped bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now(),
    retired_at timestamptz
);
CREATE UNIQUE INDEX seal_keys_current ON seal_keys ((true)) WHERE retired_at IS NULL;

-- The seals: which events each one covers, in the order of their ids, and the tree that all of them so far give.
CREATE TABLE seals (
    number bigint PRIMARY KEY CHECK (number > 0),
    ids int8multirange NOT NULL,
    size bigint NOT NULL CHECK (size >= 0),
    peaks bytea NOT NULL,
    checkpoint text NOT NULL
);
CREATE INDEX seals_by_size ON seals (size);
CREATE INDEX seals_of_events ON seals USING gist (ids);
CREATE TRIGGER seals_append_only BEFORE UPDATE OR DELETE ON seals
    FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER seals_no_truncate BEFORE TRUNCATE ON seals
    FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Which ledger this is, and up to which id every event is sealed, so that nobody looks below it for one that is not.
CREATE TABLE sealing (
    origin text PRIMARY KEY CHECK (origin !~ '[\s+]'),
    settled bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX sealing_one_row ON sealing ((true));
INSERT INTO sealing (origin) VALUES ('counterseal.ledger/' || replace(gen_random_uuid()::text, '-', ''));

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT UPDATE (settled) ON sealing TO counterseal_service;
        GRANT UPDATE (retired_at) ON seal_keys TO counterseal_service;
    END IF;
END
$$;
