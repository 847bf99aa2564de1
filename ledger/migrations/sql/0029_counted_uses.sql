-- Counting leaves a call's own uses out, so the id is in the index too: what is counted is read from there alone, and not
-- from a page of the table for each use.
CREATE INDEX uses_counted ON uses (tenant, subject, tool, at) INCLUDE (amount, state, changed_at, request_id)
    WHERE state <> 'released';
DROP INDEX uses_live;
ALTER INDEX uses_counted RENAME TO uses_live;
