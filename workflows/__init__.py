"""Orchestration only, and deterministic: what to ask for next, never what the answer is."""
