"""The one base model: frozen, strict, closed."""

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """Immutable value. Strict: `true`, `"100"` and `100.0` are not integers. Unknown fields are refused."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid")


class EventBody(Model):
    """Base of every event's body; `type` is its name in the ledger."""

    version: ClassVar[int] = 1
