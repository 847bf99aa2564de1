"""Which policy decides now."""

from typing import Protocol

from policy.model import Policy


class PolicyUnusable(Exception):
    """Nothing can be decided by what is in force. The text says why, in our words; `version` is what it claims."""

    def __init__(self, because: str, version: str = "none") -> None:
        super().__init__(because)
        self.version = version


class InForce(Protocol):
    """Where the policy in force comes from. Whoever decides asks once, and decides by that one."""

    async def now(self) -> Policy:
        """Raises PolicyUnusable."""
        ...


class Fixed:
    """The policy of a file, for as long as the process runs."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def now(self) -> Policy:
        return self._policy
