"""Postgres: the append-only events and everything folded from them. The only place that holds SQL."""
