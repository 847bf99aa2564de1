-- Indexes for what was read from one end of a table to the other. A call that runs at once writes to the last of them alone,
-- which takes in a range of pages at a time and costs next to nothing.
CREATE INDEX runs_open ON runs (expires_at) WHERE revoked_at IS NULL;
CREATE INDEX runs_by_customer ON runs (tenant, customer_id);
CREATE INDEX tokens_of_people ON tokens (tenant, principal) WHERE kind <> 'run';
CREATE INDEX decisions_by_request ON decisions (request_id);
CREATE INDEX diagnostics_by_key ON diagnostics (key_id);
-- Rows change soon after they were made, so those that changed lately lie together.
CREATE INDEX calls_by_change ON calls USING brin (updated_at) WITH (autosummarize = on);
