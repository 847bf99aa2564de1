#!/bin/sh
# Make the roles that processes connect as, each a member of its group, before the schema grants the groups their rights; or
# give them other passwords. Repeating it changes nothing.
set -eu

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\getenv api API_PASSWORD
\getenv worker WORKER_PASSWORD
\getenv sealer SEALER_PASSWORD
\getenv readonly READONLY_PASSWORD
SELECT format('CREATE ROLE %I', name)
FROM unnest(ARRAY['counterseal_api', 'counterseal_worker', 'counterseal_sealer', 'counterseal_readonly',
                  'api', 'worker', 'sealer', 'readonly']) name
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = name) \gexec
GRANT counterseal_api TO api;
GRANT counterseal_worker TO worker;
GRANT counterseal_sealer TO sealer;
GRANT counterseal_readonly TO readonly;
ALTER ROLE api LOGIN PASSWORD :'api';
ALTER ROLE worker LOGIN PASSWORD :'worker';
ALTER ROLE sealer LOGIN PASSWORD :'sealer';
ALTER ROLE readonly LOGIN PASSWORD :'readonly';
SQL
