"""A run's tools as an agent framework has them. One module each, imported by name; each needs the extra of its name.

Everywhere the idempotency key is hidden from the model and derived from the id of its tool call, which frameworks keep
with the conversation: what is done again is the same call.
"""
