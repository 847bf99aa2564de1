-- name: snapshot
-- What a dump has to be told to see what this transaction sees.
SELECT pg_export_snapshot()

-- name: tables
-- Every table of the schema, the ones that only a session has aside.
SELECT c.relname FROM pg_class c WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
  AND c.relpersistence = 'p' ORDER BY c.relname

-- name: grantees
-- The roles beside the owner that have rights in it.
SELECT DISTINCT r.rolname FROM pg_class c CROSS JOIN LATERAL aclexplode(c.relacl) a JOIN pg_roles r ON r.oid = a.grantee
WHERE c.relnamespace = current_schema()::regnamespace AND r.rolname <> current_user ORDER BY r.rolname

-- name: missing
-- Which of these roles the server does not have.
SELECT name FROM unnest($1::text[]) AS name WHERE name NOT IN (SELECT rolname FROM pg_roles) ORDER BY name

-- name: position
-- Which ledger it is, and where it stands.
SELECT (SELECT origin FROM sealing) AS origin,
       (SELECT version_num FROM alembic_version) AS migration,
       current_setting('server_version') AS server,
       (SELECT coalesce(max(id), 0) FROM events) AS last_event,
       coalesce((SELECT max(number) FROM seals), 0) AS seal,
       (SELECT checkpoint FROM seals ORDER BY number DESC LIMIT 1) AS checkpoint
