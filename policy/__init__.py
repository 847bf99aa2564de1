"""Pure decisions: (policy, manifest, arguments, facts, usage) -> PolicyDecision. I/O only in `load`."""
