-- How often requests were refused, by who asked and by the network they came from (a number, no address). Nothing is lost
-- with it, so it is not written ahead: counting costs no disk flush, and after a crash it begins at zero.
CREATE UNLOGGED TABLE attempts (
    subject text NOT NULL,
    seconds integer NOT NULL CHECK (seconds > 0),
    began_at timestamptz NOT NULL,
    count integer NOT NULL,
    PRIMARY KEY (subject, seconds)
);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE, DELETE ON attempts TO counterseal_service;
    END IF;
END
$$;
