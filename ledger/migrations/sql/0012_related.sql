-- What stands beside an approval: the customer's earlier calls, and what waits for the same customer.
CREATE INDEX calls_by_customer ON calls (tenant, customer_id, created_at DESC, request_id);
ALTER TABLE approvals ADD COLUMN customer_id text;
UPDATE approvals a SET customer_id = c.customer_id FROM calls c WHERE c.request_id = a.request_id;
ALTER TABLE approvals ALTER COLUMN customer_id SET NOT NULL;
CREATE INDEX approvals_by_customer ON approvals (tenant, customer_id, expires_at, approval_id) WHERE status = 'open';
-- A deadline that is moved has the warning before it told anew: what is on its way about an approval.
CREATE INDEX notices_of_approval ON notices (approval_id) WHERE state IN ('due', 'sending');
