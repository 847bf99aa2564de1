-- Finding what was done in a trace. Of calls from before, rebuilding the projections fills it in: only their bodies say it.
ALTER TABLE calls ADD COLUMN trace_id text;
CREATE INDEX calls_by_trace ON calls (trace_id) WHERE trace_id IS NOT NULL;
