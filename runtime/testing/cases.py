"""One thing that a tool must refuse, and how."""

from collections.abc import Callable
from dataclasses import dataclass

from schemas.codes import Code
from schemas.replies import Explanation, reply_for


@dataclass(frozen=True, slots=True)
class Refused:
    """How something was refused: the code, and what the reply says beside it."""

    code: Code
    explanation: Explanation


@dataclass(frozen=True, slots=True)
class RedCase:
    """Something that must not be possible. `attempt` tries it: a refusal, or in words what came of it instead."""

    name: str
    expected: frozenset[Code]
    attempt: Callable[[], Refused | str]

    def __str__(self) -> str:
        return self.name

    def check(self) -> None:
        """Raises AssertionError where it is possible, or refused with another code or without a whole sentence."""
        outcome = self.attempt()
        if isinstance(outcome, str):
            raise AssertionError(f"{self.name}: {outcome}")
        if outcome.code not in self.expected:
            raise AssertionError(f"{self.name}: {outcome.code} instead of {' or '.join(sorted(self.expected))}")
        # Raises KeyError for a sentence that lacks a value.
        reply = reply_for(outcome.code, "act_" + "0" * 32, outcome.explanation)
        if reply.status == "executed" or not reply.message:
            raise AssertionError(f"{self.name}: is answered as if it were done")
