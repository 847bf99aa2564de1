"""What a tool declares about itself (`tools/<name>/manifest.yaml`)."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from schemas.base import Model

ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{2,62}$")]
Risk = Literal["low", "medium", "high", "critical"]
Reversibility = Literal["reversible", "compensable", "irreversible"]
CapabilityClass = Literal[
    "read_public",
    "read_private",
    "read_untrusted",
    "write_internal",
    "write_side_effect",
    "money_movement",
    "external_communication",
    "browser_or_code",
    "memory_write",
    "credential_use",
]
# Which worker holds the credential that the tool's effect needs; "none" runs beside the workflow.
Queue = Literal["payments", "orders", "messages"]
# A remote system that a tool may exchange with.
System = Literal["payments", "orders"]
EFFECT_QUEUES: tuple[Queue, ...] = ("payments", "orders", "messages")
# What a worker can serve: the workflows themselves, and the queues of effects.
WorkerQueue = Literal["workflows", "payments", "orders", "messages"]


class Manifest(Model):
    """A tool's declaration. Whatever is unknown about a tool makes it `critical`, which is held for a person."""

    name: ToolName
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    owner: str
    title: str
    description: Annotated[str, Field(max_length=2000)]
    risk: Risk = "critical"
    capability_classes: tuple[CapabilityClass, ...]
    reversibility: Reversibility = "irreversible"
    undo_tool: ToolName | None = None
    operation: Annotated[str, StringConstraints(pattern=r"^[a-z_]+$")]
    """The class of action an unknown outcome is reported as, e.g. `refund`."""
    writes: bool
    queue: Queue
    egress: tuple[System, ...] | None = None
    """The systems that it may exchange with, for its facts and its effect. Left out: only the one of its `queue`."""
    published: bool = False
    result_max_items: Annotated[int, Field(ge=1, le=100)] = 20

    @property
    def systems(self) -> tuple[str, ...]:
        """What it may exchange with; everything else is denied."""
        return (self.queue,) if self.egress is None else self.egress


class ToolDescription(Model):
    """One entry of `GET /v1/tools`."""

    name: str
    version: str
    description: str
    input_schema: dict[str, object]
    output_schema: dict[str, object]
    annotations: dict[str, bool | str]
