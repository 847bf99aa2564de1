-- name: publish_policy
-- The text of a policy, by its version; the first one is kept.
INSERT INTO policies (version, source) VALUES ($1, $2) ON CONFLICT DO NOTHING
