"""The embedded stack: Postgres, Temporal, the sandbox, the API and a worker as children of one supervisor."""
