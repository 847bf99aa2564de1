"""What a tool is: pure decisions about arguments and facts, and its reads and effects through the gateways.

A tool is one folder, `tools/<name>/`, with `manifest.yaml` and a module `tool.py` that exports `TOOL`, a `ReadTool` or
a `WriteTool`, or in the module's place `http.yaml`, which says what it exchanges with a remote system. `policy.yaml`
holds its section of a policy that does not name it.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Set
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Generic, TypeVar

from pydantic import JsonValue, StringConstraints

from gateways.protocols import Systems
from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.decisions import Claim, PolicyDecision
from schemas.effects import Attempt, Effect, Inspection
from schemas.replies import Explanation

IdempotencyKey = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{32}$")]


class Arguments(Model):
    """Base of every tool's argument model. Customer, tenant and actor are never arguments: the run binds them."""


class WriteArguments(Arguments):
    idempotency_key: IdempotencyKey


class Refusal(Model):
    """A call that can never be allowed on these facts, whatever the policy says."""

    code: Code
    explanation: Explanation


A = TypeVar("A", bound=Arguments)
W = TypeVar("W", bound=WriteArguments)
F = TypeVar("F", bound=Model)
R = TypeVar("R", bound=Model)


class ReadTool(ABC, Generic[A, R]):
    """A tool that changes nothing."""

    name: str
    arguments_model: type[A]
    result_model: type[R]

    @abstractmethod
    async def read(self, arguments: A, binding: Binding, systems: Systems) -> R | Refusal:
        """The answer for the run's own customer. Raises SystemUnavailable."""

    @abstractmethod
    def is_empty(self, result: R) -> bool:
        """Whether the answer is `NO_RESULTS`."""

    @abstractmethod
    def done(self, arguments: A, result: R | None) -> str:
        """What was looked up, for the sentence of the reply, e.g. `3 orders of this customer`."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What would be decided about a call, on which facts; `available` is what is left of what it would take from, in
    minor units, None where it takes nothing."""

    decision: PolicyDecision
    facts: Model
    available: int | None


Foresee = Callable[[str, Mapping[str, JsonValue]], Awaitable[Foreseen | Refusal]]
"""Asks what would be decided about a call of a tool with these arguments, by the same run; nothing comes of it."""


class ForeseeingTool(ReadTool[A, R]):
    """A read that answers what would be decided about a call of another tool."""

    @abstractmethod
    async def foresee(self, arguments: A, binding: Binding, systems: Systems, ask: Foresee) -> R | Refusal:
        """The answer for the run's own customer. Raises SystemUnavailable."""

    async def read(self, arguments: A, binding: Binding, systems: Systems) -> R | Refusal:
        raise LookupError(f"{self.name} cannot answer without asking what would be decided")


class WriteTool(ABC, Generic[W, F, R]):
    """A tool that changes something outside, once."""

    name: str
    arguments_model: type[W]
    facts_model: type[F]
    result_model: type[R]
    untrusted_arguments: tuple[str, ...] = ()
    """Arguments that carry the agent's own words: shown last and quoted, left out of titles and digests' summaries."""
    amendable: tuple[str, ...] = ()
    """Arguments that a person may change instead of denying the call, as long as it then takes no more than before."""
    undone_late: bool = False
    """Whether the remote system may undo a confirmed effect by itself, days later; such effects are looked at again."""
    exceeded_code: Code = Code.REFUND_EXCEEDS_PAID
    """What a call is refused with that claims more than is left."""
    key_validity: timedelta | None = None
    """How long the remote system knows an idempotency key, counted from the first send; None where its gateway says."""

    @abstractmethod
    async def read_facts(self, arguments: W, binding: Binding, systems: Systems) -> F | Refusal:
        """The facts the decision needs, from their owners; a refusal when the record is not this customer's to touch.

        Raises SystemUnavailable.
        """

    @abstractmethod
    def check(self, arguments: W, facts: F) -> Refusal | None:
        """Pure. What can never be allowed on these facts, e.g. another currency than was paid."""

    @abstractmethod
    def claim(self, arguments: W, facts: F) -> Claim | None:
        """Pure. What the call takes from something finite; None when it takes nothing."""

    def exceeded(self, arguments: W, facts: F, available: int) -> Explanation:
        """Pure. What to say when the claim is more than the `available` minor units that the ledger found left.

        Only asked of tools whose `claim` takes something; those override it.
        """
        raise NotImplementedError(f"{self.name} claims nothing")

    async def in_facts(self, operation_ids: Set[str], facts: F, systems: Systems) -> Set[str] | None:
        """Which of these operations the facts contain already; None when that cannot be told yet. Raises
        SystemUnavailable.

        None of them unless a tool knows better: then they count twice until they are settled, which is only stricter.
        """
        return frozenset()

    @abstractmethod
    def matters(self, facts: F) -> dict[str, JsonValue]:
        """Pure. The facts an approval rests on; they enter the action digest. No times, no counters."""

    @abstractmethod
    def target(self, arguments: W, facts: F) -> dict[str, JsonValue]:
        """Pure. `Effect.target`: all that `execute` and `inspect` need."""

    @abstractmethod
    def title(self, arguments: W, facts: F) -> str:
        """Pure. The action in plain words for a person, e.g. `Refund 312.40 USD to the card ending 4242`.

        Holds no text of the agent's.
        """

    @abstractmethod
    async def execute(self, effect: Effect, systems: Systems) -> Attempt:
        """One attempt, sent at most once; never raises for what the remote did."""

    @abstractmethod
    async def inspect(self, effect: Effect, systems: Systems) -> Inspection:
        """Look whether the effect happened."""

    @abstractmethod
    def presumed(self, effect: Effect, remote_id: str) -> dict[str, JsonValue]:
        """Pure. The result of an effect that a person says happened, under the id that the remote system gave it."""

    @abstractmethod
    def done(self, arguments: W, result: dict[str, JsonValue]) -> str:
        """What was done, for the sentence of the reply, e.g. `refunded 49.99 USD of order ord_…`."""
