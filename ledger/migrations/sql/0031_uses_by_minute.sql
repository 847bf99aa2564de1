-- What is counted of all calls of a tool, a tenant or an agent grows with what they do: a day of a busy agent has a hundred
-- thousand uses, and each admission would count them under the lock that the others wait for. So what lives is added up by
-- the minute, in the very statement that changes it. Of other subjects, an order's or a customer's, there are few uses.
CREATE FUNCTION is_added_up(subject text) RETURNS boolean LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN subject IN ('tool', 'tenant') OR subject LIKE 'agent:%' OR subject LIKE '%:agent:%';

CREATE TABLE uses_by_minute (
    tenant text NOT NULL,
    subject text NOT NULL,
    tool text NOT NULL,
    minute timestamptz NOT NULL,
    count bigint NOT NULL,
    amount bigint NOT NULL,
    PRIMARY KEY (tenant, subject, tool, minute)
) WITH (fillfactor = 50); -- The row of the minute that runs changes with each call, in its page.
ALTER TABLE uses_by_minute ENABLE ROW LEVEL SECURITY, FORCE ROW LEVEL SECURITY;
CREATE POLICY tenants ON uses_by_minute USING ((SELECT current_setting('counterseal.tenant', true)) IN (tenant, '*'));

-- Runs as the owner: nobody writes these rows but by writing uses. Rows are taken in one order, so that two statements that
-- change the same ones wait for each other and never in a circle; and last of all in an admission.
DO $$
BEGIN
    EXECUTE format($function$
CREATE FUNCTION add_up_uses() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, %1$I, pg_temp AS $body$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO uses_by_minute AS m (tenant, subject, tool, minute, count, amount)
        SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch'), count(*), sum(amount)
        FROM new_uses WHERE state <> 'released' AND is_added_up(subject)
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (tenant, subject, tool, minute)
        DO UPDATE SET count = m.count + excluded.count, amount = m.amount + excluded.amount;
    ELSIF TG_OP = 'UPDATE' THEN
        INSERT INTO uses_by_minute AS m (tenant, subject, tool, minute, count, amount)
        SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch'), sum(one), sum(one * amount)
        FROM (SELECT tenant, subject, tool, at, 1 AS one, amount FROM new_uses WHERE state <> 'released'
              UNION ALL
              SELECT tenant, subject, tool, at, -1, amount FROM old_uses WHERE state <> 'released') changes
        WHERE is_added_up(subject)
        GROUP BY 1, 2, 3, 4 HAVING sum(one) <> 0 OR sum(one * amount) <> 0 ORDER BY 1, 2, 3, 4
        ON CONFLICT (tenant, subject, tool, minute)
        DO UPDATE SET count = m.count + excluded.count, amount = m.amount + excluded.amount;
    ELSE
        INSERT INTO uses_by_minute AS m (tenant, subject, tool, minute, count, amount)
        SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch'), -count(*), -sum(amount)
        FROM old_uses WHERE state <> 'released' AND is_added_up(subject)
        GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
        ON CONFLICT (tenant, subject, tool, minute)
        DO UPDATE SET count = m.count + excluded.count, amount = m.amount + excluded.amount;
    END IF;
    RETURN NULL;
END
$body$
$function$, current_schema());
END
$$;

CREATE TRIGGER uses_inserted AFTER INSERT ON uses REFERENCING NEW TABLE AS new_uses
    FOR EACH STATEMENT EXECUTE FUNCTION add_up_uses();
CREATE TRIGGER uses_updated AFTER UPDATE ON uses REFERENCING NEW TABLE AS new_uses OLD TABLE AS old_uses
    FOR EACH STATEMENT EXECUTE FUNCTION add_up_uses();
CREATE TRIGGER uses_deleted AFTER DELETE ON uses REFERENCING OLD TABLE AS old_uses
    FOR EACH STATEMENT EXECUTE FUNCTION add_up_uses();

-- The uses that there are. Nobody writes any until this is committed: making the triggers keeps writers out.
INSERT INTO uses_by_minute (tenant, subject, tool, minute, count, amount)
SELECT tenant, subject, tool, date_bin('1 minute', at, 'epoch'), count(*), sum(amount)
FROM uses WHERE state <> 'released' AND is_added_up(subject) GROUP BY 1, 2, 3, 4;

DO $$
DECLARE
    reader text;
BEGIN
    FOREACH reader IN ARRAY ARRAY['counterseal_service', 'counterseal_api', 'counterseal_worker', 'counterseal_readonly']
    LOOP
        IF EXISTS (SELECT FROM pg_roles WHERE rolname = reader) THEN
            EXECUTE format('GRANT SELECT ON uses_by_minute TO %I', reader);
        END IF;
    END LOOP;
END
$$;
