"""Kill switches: what each covers, by name."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal, get_args

from schemas.base import Model
from schemas.calls import Binding
from schemas.codes import Code
from schemas.tools import CapabilityClass

Kind = Literal["all", "tenant", "tool", "class", "agent", "run", "vault"]
# What happens to the deadlines of parked calls while a switch that covers them is off.
Deadlines = Literal["pause", "run"]

VAULT = "vault"
EVERYONE = "*"
"""The tenant of a switch that covers every tenant's calls."""

PERMIT = timedelta(seconds=1)
"""How long what was read of the switches lets a write begin. A change is acknowledged only after as long, so that no
write begins after the acknowledgement that was let through before it."""

_NAMED = re.compile(r"(tenant|tool|class|agent|run):([!-~]{1,200})")


@dataclass(frozen=True, slots=True)
class Switch:
    """A switch by its parts; `value` is empty for `all` and `vault`."""

    kind: Kind
    value: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{self.value}" if self.value else self.kind


def parse(name: str) -> Switch:
    """A switch by its name: `all`, `tenant:NAME`, `tool:NAME`, `class:NAME`, `agent:ID`, `run:ID` or `vault`.

    Raises ValueError.
    """
    if name in ("all", VAULT):
        return Switch("vault" if name == VAULT else "all")
    found = _NAMED.fullmatch(name)
    if found is None:
        raise ValueError("a switch is all, tenant:NAME, tool:NAME, class:NAME, agent:ID, run:ID or vault")
    kind, value = found[1], found[2]
    if kind == "class" and value not in get_args(CapabilityClass):
        raise ValueError(f"there is no class {value}; there are {', '.join(get_args(CapabilityClass))}")
    return Switch(kind, value)  # pyright: ignore[reportArgumentType]  # what the pattern takes


def of_tool(tool: str, classes: Iterable[CapabilityClass]) -> list[str]:
    """The switches that cover a tool, whoever calls it."""
    names = [f"tool:{tool}", *(f"class:{each}" for each in classes)]
    return [*names, VAULT] if "credential_use" in classes else names


def of_call(binding: Binding, tool: str, classes: Iterable[CapabilityClass]) -> list[str]:
    """The switches that cover a call."""
    caller = ["all", f"tenant:{binding.tenant}", f"agent:{binding.agent_id}", f"run:{binding.run_id}"]
    return caller + of_tool(tool, classes)


def code_of(name: str) -> Code:
    """What a call is refused with that the switch of this name covers."""
    return Code.VAULT_LOCKED if name == VAULT else Code.CAPABILITY_DISABLED


class SwitchOff(Model):
    """A switch that is off."""

    tenant: str
    """Whose calls it covers; `*` for everyone's."""
    name: str
    off_at: datetime
    off_by: str
    reason: str
    deadlines: Deadlines
