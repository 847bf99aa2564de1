"""What calls are counted against: who or what, as one text. Pure."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from pydantic import JsonValue

from schemas.canonical import digest

Scope = Literal["run", "turn", "customer", "order", "agent", "agent_amount", "tool", "tenant", "repeat"]
TENANT = "tenant"
ALL_TOOLS = "*"
_TURN, _TOGETHER = "turn:", "together:"


class Countable(NamedTuple):
    """What a call says of itself. `does`: its arguments that say what is to be done. `takes`: the minor units and the
    currency of what it takes; None where it takes nothing."""

    run_id: str
    request_id: str
    trace_id: str | None
    customer_id: str
    agent_id: str
    does: Mapping[str, JsonValue]
    takes: tuple[int, str] | None


class Basis(NamedTuple):
    """By whom or what calls are counted. `unasked`: among calls that nobody was asked about; `together`: with the calls
    of every tool that counts by the same."""

    per: Scope
    unasked: bool = False
    together: bool = False

    @property
    def spans_tools(self) -> bool:
        """Whether calls of other tools count too."""
        return self.together or (self.per in (TENANT, "turn") and not self.unasked)


def subject_of(basis: Basis, call: Countable) -> str:
    """Whom or what a call counts against: of the binding of its run, never a value of the agent's choosing, save the
    order, which was checked to be the customer's, and what makes two calls alike: the amount, or all that it does.
    """
    return written(basis, _subject(basis.per, call))


def written(basis: Basis, whom: str) -> str:
    """The text for whom a call counts against, on that basis."""
    subject = f"unasked:{whom}" if basis.unasked else whom
    return f"{_TOGETHER}{subject}" if basis.together else subject


def counted_for(subject: str, tool: str) -> str:
    """Whose calls count against a subject: those of the tool, or for a tenant, a turn, and what is counted together,
    those of every tool."""
    return ALL_TOOLS if subject == TENANT or subject.startswith((_TURN, _TOGETHER)) else tool


def _subject(per: Scope, call: Countable) -> str:
    match per:
        case "run":
            return f"run:{call.run_id}"
        case "turn":
            return f"{_TURN}{call.run_id}:{call.trace_id or call.request_id}"
        case "customer":
            return f"customer:{call.customer_id}"
        case "order":
            return f"order:{call.does.get('order_id')}"
        case "agent":
            return f"agent:{call.agent_id}"
        case "agent_amount":
            amount = "" if call.takes is None else f"{call.takes[0]}:{call.takes[1]}"
            return f"agent:{call.agent_id}:{amount}"
        case "repeat":
            return f"repeat:{digest({**call.does, 'customer_id': call.customer_id})}"
        case "tool" | "tenant":
            return per
