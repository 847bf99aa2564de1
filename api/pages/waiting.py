"""What of what waits a person looks at: the filter of the inbox, as its address has it, and what comes next in it."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends

from api.context import Context
from api.deciding import may_decide
from api.pages.amounts import minor_of
from api.pages.routing import Text
from api.pages.views import decided_by, decider
from ledger.inbox import Filter, Whose
from ledger.principals import Person
from schemas.decisions import Approval
from schemas.money import Money

_BATCH, _BATCHES = 25, 4
_CURRENCY = re.compile(r"[A-Z]{3}")


@dataclass(frozen=True, slots=True)
class Asked:
    """The filter, and the address that leads to it again. `problem`: why the amount in it is none."""

    filter: Filter = field(default_factory=Filter)
    typed: str = ""
    currency: str = ""
    problem: str = ""

    @property
    def fields(self) -> dict[str, str]:
        """What the address says, by name."""
        said = {
            "tool": self.filter.tool,
            "group": self.filter.group,
            "agent": self.filter.agent,
            "mine": "yes" if self.filter.mine else None,
            "second": "yes" if self.filter.second else None,
            "at_least": self.typed or None,
            "currency": self.currency if self.typed else None,
        }
        return {name: value for name, value in said.items() if value}

    def query(self, **changes: str | None) -> str:
        """The query with some of it changed or (None) left out: `?tool=…`, or nothing."""
        said = {name: value for name, value in {**self.fields, **changes}.items() if value}
        return f"?{urlencode(said)}" if said else ""


def _asked(
    tool: Text = "",
    group: Text = "",
    agent: Text = "",
    mine: Text = "",
    second: Text = "",
    at_least: Text = "",
    currency: Text = "",
) -> Asked:
    typed, least, problem = at_least.strip(), None, ""
    if typed and _CURRENCY.fullmatch(currency) and (amount := minor_of(typed, currency)) is not None:
        least = Money(amount=amount, currency=currency)
    elif typed:
        problem = "That is not an amount, so nothing is left out for it. Write it like 250.00, and choose its currency."
    chosen = Filter(tool or None, group or None, agent or None, mine == "yes", second == "yes", least)
    return Asked(chosen, typed, currency, problem)


AskedFor = Annotated[Asked, Depends(_asked)]
"""Yields the filter that the address has."""


def whose(person: Person) -> Whose:
    return Whose.of(person.username, person.standing)


async def next_waiting(services: Context, person: Person, wanted: Filter) -> Approval | None:
    """The one with the oldest deadline that this person may decide in one way or the other, of those that fit."""
    inbox, now = services.ledger.of(person.tenant).inbox, datetime.now(UTC)
    mine = Filter(wanted.tool, wanted.group, wanted.agent, True, wanted.second, wanted.at_least)
    after = (now, "")
    for _ in range(_BATCHES):
        found = await inbox.waiting(person.tenant, mine, whose(person), after=after, limit=_BATCH)
        for each in found:
            if may_decide(decider(person), each, "deny") and not decided_by(each, person):
                return each
        if len(found) < _BATCH:
            return None
        after = (found[-1].expires_at, found[-1].approval_id)
    return None
