-- name: store_policy
-- The text of a policy, by its version; the first one is kept.
INSERT INTO policies (version, source) VALUES ($1, $2) ON CONFLICT DO NOTHING

-- name: stored_policy
SELECT source FROM policies WHERE version = $1

-- name: newest_publication
-- What is in force.
SELECT p.number, p.version, p.token, s.source FROM publications p JOIN policies s USING (version)
ORDER BY p.number DESC LIMIT 1

-- name: newest_number
SELECT max(number) FROM publications

-- name: publications
-- Newest first.
SELECT number, version, token, published_at FROM publications ORDER BY number DESC LIMIT $1

-- name: insert_publication
INSERT INTO publications (number, version, token, published_at) VALUES ($1, $2, $3, $4)

-- name: clock
SELECT clock_timestamp()

-- name: insert_proposal
INSERT INTO policy_proposals (proposal_id, version, base, reason) VALUES ($1, $2, $3, $4)

-- name: insert_vote
-- What somebody says to a proposal, once.
INSERT INTO policy_votes (proposal_id, username, vote, reason) VALUES ($1, $2, $3, $4)
ON CONFLICT DO NOTHING RETURNING username

-- name: proposals
-- Those of these ids, or, without any, the newest ones: with what was proposed, and which publication came of it or of
-- another one since.
SELECT r.proposal_id, r.version, r.base, r.reason, r.proposed_at, s.source, n.version AS replaced_by
FROM policy_proposals r JOIN policies s USING (version)
LEFT JOIN publications n ON n.number = r.base + 1
WHERE $1::text[] IS NULL OR r.proposal_id = ANY($1)
ORDER BY r.proposed_at DESC, r.proposal_id LIMIT $2

-- name: votes
SELECT proposal_id, username, vote, reason, voted_at FROM policy_votes WHERE proposal_id = ANY($1::text[])
ORDER BY voted_at, username

-- name: voters
-- Who they are now, as far as they still have an account that is open.
SELECT username, names, roles FROM people WHERE username = ANY($1::text[]) AND disabled_at IS NULL
