"""What a tool declares about itself (`tools/<name>/manifest.yaml`)."""

from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from schemas.base import Model

ToolName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{2,62}$")]
ArgumentName = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]{0,62}$")]
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
READING: frozenset[CapabilityClass] = frozenset(("read_public", "read_private", "read_untrusted", "credential_use"))
"""The classes that say what is read, and none that something is changed."""
OF_READS: frozenset[CapabilityClass] = READING.union(("external_communication", "browser_or_code"))
"""The classes that a tool may have which changes nothing: an address that is fetched goes out, too."""
# Which worker holds the credential that the tool's effect needs; "none" runs beside the workflow.
Queue = Literal["payments", "orders", "messages"]
# A remote system that a tool may exchange with: one of the service's own, or one that the settings name.
System = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{1,31}$")]
EFFECT_QUEUES: tuple[Queue, ...] = ("payments", "orders", "messages")
# What a worker can serve: the workflows themselves, and the queues of effects.
WorkerQueue = Literal["workflows", "payments", "orders", "messages"]
WORKER_QUEUES: tuple[WorkerQueue, ...] = ("workflows", *EFFECT_QUEUES)
# A repeat of an effect is harmless under the same key, of itself, or never.
Idempotency = Literal["key", "natural", "none"]

Group = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_-]{1,62}$")]
Sentence = Annotated[str, StringConstraints(min_length=1, max_length=200, pattern=r"^[^\r\n]+$")]
_Most = Annotated[int, Field(ge=0, le=1_000_000)]


def queue_name(task_queue: str, queue: WorkerQueue) -> str:
    """What Temporal knows the queue as, in the installation of this task queue; the workflows' has its name."""
    return task_queue if queue == "workflows" else f"{task_queue}-{queue}"


class BlastRadius(Model):
    """The most that one call can touch. Told to people, who weigh a tool by it; what holds a call to it is its own
    argument schema and its remote system."""

    rows: _Most
    accounts: _Most
    tenants: _Most
    people: _Most


class Phase(Model):
    """While the tool is offered in a run: from when a call of one of `after` was executed, until one of `until` was."""

    after: Annotated[tuple[ToolName, ...], Field(min_length=1)]
    until: tuple[ToolName, ...] = ()


class Manifest(Model):
    """A tool's declaration. The first fields are needed to run it at all. Each of the others has to be there too: what
    is not said is taken for the worst, and makes the tool one of critical risk, which is held for a person."""

    name: ToolName
    version: Annotated[str, StringConstraints(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+$")]
    title: Annotated[str, StringConstraints(min_length=1, max_length=80, pattern=r"^[^\r\n]+$")]
    description: Annotated[str, StringConstraints(min_length=1, max_length=2000)]
    operation: Annotated[str, StringConstraints(pattern=r"^[a-z_]+$")]
    """The class of action an unknown outcome is reported as, e.g. `refund`."""
    writes: bool
    queue: Queue
    """Whose worker sends the effect."""

    owner: str = ""
    """Who answers for the tool."""
    risk: Risk = "critical"
    """As its owner judges it; `effective_risk` is what counts."""
    capability_classes: tuple[CapabilityClass, ...] = ()
    reversibility: Reversibility = "irreversible"
    undo_tool: ToolName | None = None
    """The tool that takes it back; a write that is `reversible` needs one."""
    blast_radius: BlastRadius | None = None
    side_effects: tuple[Sentence, ...] = ()
    """What else happens in the world when it runs, in short sentences; for people. Empty for a read."""
    scopes: tuple[Sentence, ...] = ()
    """What its credential has to be allowed at the remote system, in that system's words, e.g. `refunds:write`. For the
    operator who makes the credential: the remote system is what enforces it."""
    roles: tuple[Group, ...] = ()
    """The only groups that a policy may have decide about its calls; empty: those that the policy names."""
    idempotency: Idempotency = "none"
    """Whether a repeat is harmless. Only an effect that its system takes once per `key` is ever sent again."""
    timeout_seconds: Annotated[int, Field(ge=1, le=50)] = 50
    """The most that one of its exchanges may take; the setting's deadline counts where that is shorter."""
    repeatable: bool = False
    """Whether a read that failed may be tried again at once."""
    egress: tuple[System, ...] | None = None
    """The systems that it may exchange with, for its facts and its effect. Left out: only the one of its `queue`."""
    credential: System | None = None
    """The system whose credential in the vault its effect is sent with. Others of `egress` it may only read (GET)."""
    result_max_items: Annotated[int, Field(ge=1, le=100)] = 20
    """How many entries a list of a read's result has at most; what is beyond is left out and `truncated` says so."""
    result_max_bytes: Annotated[int, Field(ge=256, le=262_144)] = 16_384
    """How large a read's result is at most, as compact JSON in UTF-8; entries are left out until it fits."""
    trace: tuple[ArgumentName, ...] = ()
    """Arguments that spans may show: enums, whole numbers and booleans only."""
    redact: tuple[ArgumentName, ...] = ()
    """Arguments whose values no page, reply or sentence shows; an approver sees that there is one."""
    published: bool = False
    """Whether agents may be offered it. An internal tool can be given to no run, and no call reaches it."""
    phase: Phase | None = None
    """While it is offered. Left out: always."""

    @model_validator(mode="after")
    def _is_consistent(self) -> Self:
        problems = [what for broken, what in self._contradictions() if broken]
        if problems:
            raise ValueError("; ".join(problems))
        return self

    def _contradictions(self) -> tuple[tuple[bool, str], ...]:
        given, reads = self.model_fields_set, not self.writes
        return (
            (
                self.undo_tool is not None and (reads or self.reversibility == "irreversible"),
                "undo_tool: one that only reads or is irreversible has none",
            ),
            (reads and not OF_READS.issuperset(self.capability_classes), "capability_classes: it only reads"),
            (
                self.writes and bool(self.capability_classes) and READING.issuperset(self.capability_classes),
                "capability_classes: none of them says what it writes",
            ),
            (reads and bool(self.side_effects), "side_effects: a tool that only reads has none"),
            (reads and self.redact != (), "redact: a tool that only reads is shown to nobody"),
            (
                "credential" in given and (self.credential is None) == ("credential_use" in self.capability_classes),
                "credential: a tool of the class credential_use has one, any other has null",
            ),
            (self.credential is not None and self.credential not in self.systems, "credential: is not in egress"),
            (bool(set(self.trace) & set(self.redact)), "trace: names an argument that redact names"),
        )

    @property
    def systems(self) -> tuple[str, ...]:
        """What it may exchange with; everything else is denied."""
        return (self.queue,) if self.egress is None else self.egress

    @property
    def writes_to(self) -> str | None:
        """The system that it may send more than a GET to."""
        return self.credential if "credential" in self.model_fields_set else self.queue

    @property
    def missing(self) -> tuple[str, ...]:
        """The fields that are not said, in their order."""
        unsaid = [name for name in DECLARED if name not in self.model_fields_set]
        if self.writes and self.reversibility == "reversible" and self.undo_tool is None:
            unsaid.append("undo_tool")
        if self.writes and not self.side_effects and "side_effects" not in unsaid:
            unsaid.append("side_effects")
        if not unsaid:  # asked at every call
            return ()
        return tuple(name for name in Manifest.model_fields if name in unsaid)

    @property
    def effective_risk(self) -> Risk:
        """Its risk, or `critical` where a field is missing."""
        return "critical" if self.missing else self.risk


# `undo_tool` and `phase` have a meaning where they are left out.
_REQUIRED = ("name", "version", "title", "description", "operation", "writes", "queue")
DECLARED = tuple(name for name in Manifest.model_fields if name not in (*_REQUIRED, "undo_tool", "phase"))
"""The fields that have to be said."""


class ToolDescription(Model):
    """One entry of `GET /v1/tools`."""

    name: str
    version: str
    description: str
    input_schema: dict[str, object]
    output_schema: dict[str, object]
    annotations: dict[str, bool | str]
