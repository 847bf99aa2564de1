"""Who a person is, and what keeps somebody from deciding. Pure."""

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import combinations
from typing import Literal

import asyncpg
from pydantic import TypeAdapter

from schemas.base import Model
from schemas.decisions import Approval

ANY = "*"
"""Stands for every tool, and for every currency."""

Objection = Literal["requester", "no_role", "over_limit", "counted"]
"""Why somebody may not decide: they are on the requester's side, have not the role, or it does not go so far; or it has
been approved by that right already, and another person has to."""


class Grant(Model):
    """How far a role goes for one person: for `tool`, up to `up_to` minor units of `currency`; None is any amount."""

    role: str
    tool: str
    currency: str
    up_to: int | None


_GRANTS = TypeAdapter(tuple[Grant, ...])


class _Lender(Model):
    """As the view `standings` has them."""

    username: str
    display_name: str
    person_id: str
    names: tuple[str, ...]
    roles: tuple[str, ...]
    grants: tuple[Grant, ...]


_LENDERS = TypeAdapter(tuple[_Lender, ...])


def normalised(name: str) -> str:
    """A name as it is compared: compatibility forms and case folded away (Unicode's NFKC and case folding), and what
    cannot be seen left out."""
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
    return "".join(each for each in folded if unicodedata.category(each) not in ("Cf", "Cc")).strip()


def names_of(*names: str | None) -> frozenset[str]:
    """The names that are there, normalised."""
    return frozenset(filter(None, (normalised(each) for each in names if each)))


@dataclass(frozen=True, slots=True)
class Standing:
    """What of a person counts when they decide. `names`: normalised, of all their accounts and identities. `lent`: what
    others let them do in their place now."""

    person_id: str = ""
    names: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    grants: tuple[Grant, ...] = ()
    lent: tuple["Lent", ...] = ()


@dataclass(frozen=True, slots=True)
class Lent:
    """The right of somebody who is away: to decide as they may. It is not lent on."""

    username: str
    display_name: str
    standing: Standing


@dataclass(frozen=True, slots=True)
class Right:
    """By what right somebody decides: their own, or that of `lender`."""

    lender: Lent | None = None

    @property
    def on_behalf_of(self) -> str | None:
        return self.lender.username if self.lender else None


NOBODY = Standing()
"""What is known of whoever has no account."""


def standing_of(row: asyncpg.Record) -> Standing:
    """Of a row with the columns of the view `people`, which has the grants as JSON."""
    grants = _GRANTS.validate_json(row["grants"])
    lent = tuple(
        Lent(
            each.username,
            each.display_name,
            Standing(each.person_id, names_of(*each.names), frozenset(each.roles), each.grants),
        )
        for each in _LENDERS.validate_json(row["lent"])
    )
    return Standing(row["person_id"], names_of(*row["names"]), frozenset(row["roles"]), grants, lent)


def right_to(
    standing: Standing,
    username: str,
    approval: Approval,
    now: datetime,
    verdict: Literal["approve", "deny"] = "approve",
) -> Right | Objection:
    """By what right this person may decide so at that time, their own before another's; or what keeps them from it.

    Where it takes two people, whoever lent a right and whoever uses it are one: what either of them approved so, the
    other does not approve as well.
    """
    given = [each for each in approval.decisions if each.verdict == "approve"] if verdict == "approve" else []
    own = objection_to(standing, approval, now, verdict)
    if own is None:
        return "counted" if any(each.on_behalf_of == username for each in given) else Right()
    if own == "requester":
        return own
    spent = {name for each in given for name in (each.approver, each.on_behalf_of)}
    found = {each: objection_by(standing, each, approval, now, verdict) for each in standing.lent}
    rights = [each for each, objection in found.items() if objection is None]
    if rights:
        unused = [each for each in rights if each.username not in spent]
        return Right(unused[0]) if unused else "counted"
    return "over_limit" if "over_limit" in (own, *found.values()) else own


def objection_by(
    standing: Standing, lender: Lent, approval: Approval, now: datetime, verdict: Literal["approve", "deny"] = "approve"
) -> Objection | None:
    """What keeps this person from deciding so by another's right: a name of either may be on the requester's side."""
    borrowed = lender.standing
    both = Standing(borrowed.person_id, standing.names | borrowed.names, borrowed.roles, borrowed.grants)
    return objection_to(both, approval, now, verdict)


def how_many(approvers: Sequence[frozenset[str]]) -> int:
    """How many different people have approved, of whom each approval is by: the person, and the one whose right it was.
    Two where two have nobody in common, which is the most that is asked for."""
    if any(one.isdisjoint(other) for one, other in combinations(approvers, 2)):
        return 2
    return 1 if approvers else 0


def objection_to(
    standing: Standing, approval: Approval, now: datetime, verdict: Literal["approve", "deny"] = "approve"
) -> Objection | None:
    """What keeps this person from deciding so at that time; None when nothing does.

    Names come before roles: whoever asked, or answers for the agent that asked, never decides. A role without a grant
    goes all the way; with grants it goes as far as one of them does. Denying is bound by no amount.
    """
    if not standing.names.isdisjoint(names_of(approval.agent_id, approval.actor_id, approval.owner)):
        return "requester"
    found = {_bounded(standing, role, approval, verdict) for role in approval.groups(now) & standing.roles}
    if None in found:
        return None
    return "over_limit" if "over_limit" in found else "no_role"


def _bounded(
    standing: Standing, role: str, approval: Approval, verdict: Literal["approve", "deny"]
) -> Literal["no_role", "over_limit"] | None:
    grants = [each for each in standing.grants if each.role == role]
    if not grants:
        return None
    for_it = [each for each in grants if each.tool in (ANY, approval.tool)]
    if not for_it:
        return "no_role"
    if verdict == "deny" or any(_reaches(each, approval) for each in for_it):
        return None
    return "over_limit"


def _reaches(grant: Grant, approval: Approval) -> bool:
    """What has no amount, or one nobody can tell, is within a grant without a bound alone."""
    if grant.up_to is None:
        return True
    return approval.amount is not None and approval.currency == grant.currency and approval.amount <= grant.up_to


def reach_of(standing: Standing, approval: Approval, now: datetime) -> tuple[int, str] | None:
    """The most that this person may approve for the tool in the approval's currency (minor units, ISO 4217 code); None
    where that is nothing or everything."""
    amounts = [
        each.up_to
        for each in standing.grants
        if each.role in approval.groups(now) & standing.roles
        and each.tool in (ANY, approval.tool)
        and each.currency == approval.currency
        and each.up_to is not None
    ]
    return (max(amounts), approval.currency) if amounts and approval.currency is not None else None
