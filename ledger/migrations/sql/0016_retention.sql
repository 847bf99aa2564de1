-- How many days the bodies of a class of events are kept: of one type (`approval.viewed`), or of all whose type begins
-- with the word (`approval`); the type counts before its class. Without a row: for ever. Only the owner of the tables
-- writes here, so that the service cannot shorten what it has to keep.
CREATE TABLE retention (
    event_class text PRIMARY KEY CHECK (event_class ~ '^[a-z]+([.][a-z_]+)?$'),
    keep_days integer NOT NULL CHECK (keep_days BETWEEN 1 AND 36500),
    set_by text NOT NULL,
    set_at timestamptz NOT NULL DEFAULT now()
);

-- What is left of a body that was pruned: its SHA-256, which is what the event's own hash covers.
ALTER TABLE events ADD COLUMN body_hash bytea CHECK (octet_length(body_hash) = 32);
ALTER TABLE events ALTER COLUMN body DROP NOT NULL;
ALTER TABLE events ADD CONSTRAINT events_body_or_its_hash CHECK (num_nonnulls(body, body_hash) = 1);

-- The one change that an event may undergo: its body, when it is older than its class is kept, becomes its hash. Nothing
-- that a session brings along, such as a temporary table by the name of `retention`, is looked at.
DO $$
BEGIN
    EXECUTE format($function$
CREATE FUNCTION refuse_change_but_pruning() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog, %1$I, pg_temp AS $body$
DECLARE
    pruned events;
    days integer;
BEGIN
    SELECT r.keep_days INTO days FROM retention r
    WHERE r.event_class IN (OLD.type, split_part(OLD.type, '.', 1)) ORDER BY length(r.event_class) DESC LIMIT 1;
    pruned := OLD;
    pruned.body := NULL;
    pruned.body_hash := sha256(OLD.body);
    IF OLD.body IS NULL OR NEW *<> pruned OR days IS NULL OR OLD.at >= now() - make_interval(days => days) THEN
        RAISE EXCEPTION 'the ledger is append-only';
    END IF;
    RETURN NEW;
END
$body$
$function$, current_schema());
END
$$;

DROP TRIGGER events_append_only ON events;
CREATE TRIGGER events_append_only BEFORE DELETE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER events_prune_only BEFORE UPDATE ON events FOR EACH ROW EXECUTE FUNCTION refuse_change_but_pruning();

DO $$
BEGIN
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') THEN
        REVOKE INSERT ON retention FROM counterseal_service;
        GRANT SELECT ON retention TO counterseal_service;
        GRANT UPDATE (body, body_hash) ON events TO counterseal_service;
    END IF;
END
$$;
