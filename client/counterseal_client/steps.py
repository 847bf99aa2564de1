"""Idempotency keys from stable names, so that a step that is done again is the same call."""

import hashlib

from counterseal_client.errors import Misuse

_PURPOSE = "counterseal-step-1"


def step_key(scope: str, step: str) -> str:
    """The idempotency key of a step: the first 32 hex digits of the SHA-256 of the UTF-8 text
    `counterseal-step-1 NUL scope NUL step`.

    `scope` is what the steps belong to and outlives a process and a run: a conversation, a thread, a workflow. It has
    to be unique within the tenant. `step` names one act within it. Raises Misuse.
    """
    for name, text in (("scope", scope), ("step", step)):
        if not text or "\0" in text:
            raise Misuse(f"{name} must be a text that is not empty, without NUL")
    try:
        named = "\0".join((_PURPOSE, scope, step)).encode()
    except UnicodeEncodeError:
        raise Misuse("scope and step must be Unicode text, without half a surrogate pair") from None
    return hashlib.sha256(named).hexdigest()[:32]
