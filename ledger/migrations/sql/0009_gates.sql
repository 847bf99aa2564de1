-- For the measures of gates: how many words a person had to read, and on which way a decision came. Null: from before, and
-- for `through` also what neither the page nor the API recorded.
ALTER TABLE approvals ADD COLUMN words integer;
ALTER TABLE decisions ADD COLUMN through text CHECK (through IN ('page', 'api'));
CREATE INDEX approvals_requested ON approvals (tenant, requested_at);
