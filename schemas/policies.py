"""What is signed when a policy is put in force, and what people say to a change of it."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.base import Model

Vote = Literal["agree", "object"]
PolicyVersion = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{1,62}@[0-9a-f]{12}$")]


class Publication(Model):
    """A policy in force from its time on, until the next one. `digest` is SHA-256 over all that it means (RFC 8785)."""

    number: Annotated[int, Field(ge=1, le=2**53 - 1)]
    policy_version: PolicyVersion
    digest: Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]
    previous: PolicyVersion | None
    """What was in force before; None for the first."""
    people: tuple[str, ...]
    """Who put it in force: whoever proposed it first."""
    proposal_id: str | None
    published_at: datetime
