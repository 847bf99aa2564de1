#!/bin/sh
# Make or update Temporal's own two databases. Repeating it changes nothing.
set -eu

schemas=/etc/temporal/schema/postgresql/v12

prepare() {
  tool="temporal-sql-tool --plugin postgres12 --ep $POSTGRES_SEEDS -p $DB_PORT -u $POSTGRES_USER --db $1"
  # The tool reads the password from SQL_PASSWORD, and leaves a database or a schema that is there already as it is.
  $tool create
  $tool setup-schema -v 0.0
  $tool update-schema -d "$schemas/$2/versioned"
}

prepare temporal temporal
prepare temporal_visibility visibility
