"""A witness of transparency logs: https://c2sp.org/tlog-witness."""
