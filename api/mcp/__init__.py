"""The tools of a run over the Model Context Protocol, at `/mcp`: the same calls as the HTTP API, in the same process.

Every request stands for itself, so that any API process answers any of them; what lasts is in the ledger.
"""
