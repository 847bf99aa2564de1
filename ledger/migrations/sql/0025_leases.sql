-- Work that one process at a time does: who does it, and until when. A lease that ran out is anyone's. `term` counts how
-- often it came to another holder.
CREATE TABLE leases (
    name text PRIMARY KEY,
    holder text NOT NULL,
    term bigint NOT NULL DEFAULT 1,
    ends_at timestamptz NOT NULL
);

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        GRANT SELECT, INSERT, UPDATE ON leases TO counterseal_service;
    END IF;
END
$$;
