"""Every stage at which a call can fail, in the order in which they are played."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial

from schemas.codes import Code
from tests.canary import own_failures, refusals
from tests.canary.failures import FAILURES, reading, sending
from tests.canary.probes import Probe
from tests.canary.world import World

Play = Callable[[World], Awaitable[list[Probe]]]


@dataclass(frozen=True)
class Stage:
    """`codes`: what the agent is told in the end, over all probes. `is_call`: whether it ever became a call, with a
    progress to ask for and a history. `accounts`: whether operators find accounts of it."""

    name: str
    play: Play
    codes: tuple[Code, ...]
    is_call: bool = True
    accounts: bool = True

    @property
    def told(self) -> list[str]:
        """Codes without those that repeat."""
        return list(dict.fromkeys(code.value for code in self.codes))


STAGES: list[Stage] = [
    Stage("nothing fails", refusals.control, (Code.OK, Code.PENDING_APPROVAL), accounts=False),
    Stage("the input is invalid", refusals.invalid_input, (Code.INVALID_INPUT, Code.TOOL_NOT_AVAILABLE), is_call=False),
    Stage("the caller is not authenticated", refusals.unauthenticated, (Code.UNAUTHENTICATED,), is_call=False),
    Stage("the token is of the wrong kind", refusals.forbidden, (Code.FORBIDDEN,), is_call=False),
    Stage("a person denies it", refusals.denied, (Code.USER_DENIED,)),
    *(Stage(f"{each.name}: reading facts", partial(reading, failure=each), each.reading) for each in FAILURES),
    *(Stage(f"{each.name}: sending the effect", partial(sending, failure=each), each.sending) for each in FAILURES),
    Stage("a tool of ours breaks: reading facts", own_failures.tool_reading, (Code.OK,)),
    Stage("a tool of ours breaks: sending the effect", own_failures.tool_sending, (Code.OUTCOME_UNKNOWN,)),
    Stage("the API breaks", own_failures.in_the_api, (Code.INTERNAL_FAILURE,), is_call=False),
    Stage("the database goes away in the middle", own_failures.database_away, (Code.OK,)),
    Stage("the database's error quotes values", own_failures.database_quoting, (Code.OK,)),
    Stage("Temporal is away", own_failures.temporal_away, (Code.USER_DENIED, Code.TEMPORARY_FAILURE)),
    Stage("the vault is locked", own_failures.vault_locked, (Code.VAULT_LOCKED,)),
]
