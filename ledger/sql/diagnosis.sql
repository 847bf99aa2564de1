-- name: schema
-- Every event of an export, in SQLite: `place` is where its line is, `leaf` its hash as it is stated, `computed` as its
-- fields give it, `seal` the seal that names it.
CREATE TABLE rows (
    place text, id integer, request_id text, tenant text, n integer, header text, digest text, previous text,
    leaf text, computed text, body_fits integer, seal integer
)

-- name: indexes
CREATE INDEX rows_by_id ON rows (id);
CREATE INDEX rows_by_call ON rows (request_id, n);
CREATE INDEX rows_by_previous ON rows (previous);
CREATE INDEX rows_by_leaf ON rows (leaf);

-- name: insert
INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)

-- name: in_span
-- The events with ids in a range, in the order in which they stand.
SELECT id, request_id, tenant, n, leaf, computed, place FROM rows WHERE id BETWEEN ? AND ? ORDER BY rowid

-- name: mark_sealed
UPDATE rows SET seal = ? WHERE id BETWEEN ? AND ?

-- name: altered
-- Events whose fields do not give the hash that stands beside them, or whose body is not the one that was hashed.
SELECT place, id, request_id, tenant, n, header, digest, previous, leaf, computed, body_fits, seal FROM rows
WHERE leaf <> computed OR NOT body_fits ORDER BY id

-- name: broken
-- Events that do not follow the one before them in their call.
SELECT r.id, r.request_id, r.n, r.tenant, r.previous, p.id AS before, p.leaf AS leaf_before, p.tenant AS tenant_before,
       p.computed AS computed_before
FROM rows r LEFT JOIN rows p ON p.request_id = r.request_id AND p.n = r.n - 1
WHERE (r.n > 1 AND (p.id IS NULL OR (r.previous NOT IN (p.leaf, p.computed)) OR r.tenant <> p.tenant))
   OR (r.n = 1 AND r.previous <> ?)
ORDER BY r.id

-- name: twice
-- Events that are there twice.
SELECT request_id, n, count(*) AS times FROM rows GROUP BY request_id, n HAVING count(*) > 1 ORDER BY request_id, n

-- name: ids_twice
SELECT id, count(*) AS times FROM rows GROUP BY id HAVING count(*) > 1 ORDER BY id

-- name: unsealed
-- How many events no seal names, and those among them that one should.
SELECT count(*) AS unsealed, group_concat(CASE WHEN id <= ? THEN id END) AS invented FROM rows WHERE seal IS NULL

-- name: of_call
-- Another event of the same call.
SELECT id, tenant, n, header, leaf, computed FROM rows WHERE request_id = ? ORDER BY n

-- name: by_leaf
SELECT id, request_id, n FROM rows WHERE leaf = ? OR computed = ?

-- name: named_as_previous
-- Which event names this one as the one before it.
SELECT request_id, n, tenant FROM rows WHERE previous = ?

-- name: count
SELECT count(*) FROM rows
