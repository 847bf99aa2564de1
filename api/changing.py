"""The one way in which people change the policy in force: proposed by one, agreed to by as many as it asks for."""

from dataclasses import dataclass
from typing import Literal

from activities.policies import checked_stored, checked_text, document_of, terms_of_change
from api.deciding import Decider
from ledger.policies import Policies, PolicyConflict, Proposal, Terms
from policy.in_force import PolicyUnusable
from policy.model import Policy
from policy.problems import PolicyError
from schemas.ids import is_proposal_id
from schemas.policies import Vote
from tools.catalog import Catalog

Refused = Literal["not_yours", "reason_required", "invalid", "unusable", "not_found", "conflict", "spoken"]
MOST_REASON = 500


@dataclass(frozen=True, slots=True)
class Changed:
    """The proposal as it stands, or why nothing was changed, in our words."""

    proposal: Proposal | None
    refused: Refused | None = None
    because: str = ""


@dataclass(frozen=True, slots=True)
class Changing:
    """What a change of the policy works on. It holds for every tenant: only people of `tenant`, whose operators run the
    service, make one."""

    policies: Policies
    catalog: Catalog
    tenant: str

    def may(self, who: Decider, terms: Terms) -> bool:
        """Whether this person may propose a change, and agree to another's. Nobody may without an account."""
        return who.tenant == self.tenant and terms.role in who.roles and bool(who.standing.person_id)

    async def propose(self, who: Decider, text: str, where: str, *, reason: str) -> Changed:
        """Propose the policy in a YAML text, which `where` names in problems. In force at once where one person may."""
        try:
            policy = checked_text(text, where, self.catalog)
        except PolicyError as error:
            return Changed(None, "invalid", "; ".join(str(problem) for problem in error.problems[:5]))
        return await self.propose_policy(who, policy, reason=reason)

    async def propose_policy(self, who: Decider, policy: Policy, *, reason: str) -> Changed:
        if not reason.strip():
            return Changed(None, "reason_required", "say why")
        try:
            terms = await terms_of_change(self.policies, self.catalog)
            if not self.may(who, terms):
                return _not_yours(terms)
            said = reason.strip()[:MOST_REASON]
            return Changed(await self.policies.propose(document_of(policy), terms, by=who.username, reason=said))
        except PolicyUnusable as problem:
            return Changed(None, "unusable", str(problem))
        except PolicyConflict as problem:
            return Changed(None, "conflict", str(problem))

    async def say(self, who: Decider, proposal_id: str, version: str, vote: Vote, *, reason: str) -> Changed:
        """Agree to a proposal of exactly this version, or object to it; another person than those who agreed so far,
        whatever the name. Objecting takes a reason."""
        if vote == "object" and not reason.strip():
            return Changed(None, "reason_required", "say why")
        found = await self.policies.proposal(proposal_id) if is_proposal_id(proposal_id) else None
        if found is None or found.version != version:
            return Changed(None, "not_found", "there is no such proposal of that version")
        try:
            terms = await terms_of_change(self.policies, self.catalog)
            if not self.may(who, terms):
                return _not_yours(terms)
            if vote == "agree" and await self.has_agreed(who, found, terms):
                return Changed(None, "spoken", "you agreed to it already, under this name or another one of yours")
            document = document_of(checked_stored(found.source, found.version, self.catalog))
            said = reason.strip()[:MOST_REASON]
            return Changed(
                await self.policies.vote(proposal_id, document, terms, by=who.username, vote=vote, reason=said)
            )
        except PolicyError as error:
            return Changed(None, "invalid", str(error.problems[0]))
        except PolicyUnusable as problem:
            return Changed(None, "unusable", str(problem))
        except PolicyConflict as problem:
            return Changed(None, "conflict", str(problem))

    async def has_agreed(self, who: Decider, proposal: Proposal, terms: Terms) -> bool:
        """Whether this person proposed it or agreed, under any of their names."""
        _, names = await self.policies.agreed(proposal, terms.role)
        return not names.isdisjoint(who.names)


def _not_yours(terms: Terms) -> Changed:
    return Changed(None, "not_yours", f"a change takes people with the role {terms.role}, by accounts of their own")
