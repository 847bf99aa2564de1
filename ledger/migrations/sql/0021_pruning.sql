-- The bodies that there are, by type and age; those that were pruned are no more in it.
CREATE INDEX events_with_bodies ON events (type, at) WHERE body IS NOT NULL;
