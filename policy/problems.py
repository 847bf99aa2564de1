"""What is wrong with a policy, in words for the person who wrote it."""

from typing import NamedTuple


class Problem(NamedTuple):
    """One thing to put right: the file, where in it (`issue_refund / too_new / when`), and what."""

    file: str
    where: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in self if part)


class PolicyError(Exception):
    """A policy that cannot be used. `problems` holds everything that was found, not only the first."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = tuple(problems)
