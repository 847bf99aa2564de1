#!/bin/sh
# Make the role that the service connects as, before the schema grants it its rights, or give it another password.
# Repeating it changes nothing.
set -eu

psql --no-psqlrc --quiet --set ON_ERROR_STOP=1 <<'SQL'
\getenv password SERVICE_PASSWORD
SELECT 'CREATE ROLE counterseal_service'
WHERE NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'counterseal_service') \gexec
ALTER ROLE counterseal_service LOGIN PASSWORD :'password';
SQL
