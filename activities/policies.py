"""Policies that are published: as they are stored, and the one in force, checked against the tools that there are."""

import asyncio
import time
from collections.abc import Callable

import structlog

from ledger.policies import Document, InForce, Policies, Terms
from policy.document import Changes
from policy.in_force import PolicyUnusable
from policy.load import digest_of, load_stored, load_text, stored_form
from policy.model import Policy
from policy.problems import PolicyError
from tools.catalog import Catalog
from tools.vocabularies import sections, vocabularies

_LOOK_EVERY_SECONDS = 1.0
_log = structlog.get_logger()


def checked_text(text: str, where: str, catalog: Catalog) -> Policy:
    """The policy in a YAML text, which `where` names in problems. Raises PolicyError, also for a name that no tool,
    argument or fact has."""
    return load_text(text, where, vocabularies(catalog), sections(catalog))


def checked_stored(source: str, version: str, catalog: Catalog) -> Policy:
    """The same of a policy as it is stored under a version."""
    return load_stored(source, version, vocabularies(catalog))


def document_of(policy: Policy) -> Document:
    """A policy as it is to be stored."""
    return Document(policy.version, digest_of(policy.document), stored_form(policy.document))


class Published:
    """The policy that was published last, looked for once a second at most, and used only as it was signed.

    What cannot be used is not replaced by the one before, which it may have been published to stop.
    """

    def __init__(self, policies: Policies, catalog: Catalog, clock: Callable[[], float] = time.monotonic) -> None:
        self._policies = policies
        self._catalog = catalog
        self._clock = clock
        self._looked_at: float | None = None
        self._number = 0
        self._found: Policy | PolicyUnusable = PolicyUnusable("no policy was ever published")
        self._one_at_a_time = asyncio.Lock()

    async def now(self) -> Policy:
        """Raises PolicyUnusable, and what the driver raises where the database cannot be asked."""
        async with self._one_at_a_time:
            now = self._clock()
            if self._looked_at is None or now - self._looked_at >= _LOOK_EVERY_SECONDS:
                await self._look()
                self._looked_at = now
        if isinstance(self._found, PolicyUnusable):
            raise PolicyUnusable(str(self._found), self._found.version)
        return self._found

    async def _look(self) -> None:
        number = await self._policies.number()
        if number == self._number:
            return
        if number < self._number:
            self._found = PolicyUnusable(f"publication {self._number} was in force, and {number} is the last there is")
        else:
            newest = await self._policies.in_force()
            if newest is None:
                return
            self._found, self._number = self._opened(newest), newest.number
        if isinstance(self._found, PolicyUnusable):
            _log.error("policy_unusable", number=number, because=str(self._found))
        else:
            _log.info("policy_in_force", number=number, version=self._found.version)

    def _opened(self, newest: InForce) -> Policy | PolicyUnusable:
        try:
            return opened(newest, self._catalog)
        except PolicyUnusable as problem:
            return problem


def opened(newest: InForce, catalog: Catalog) -> Policy:
    """A publication as a policy. Raises PolicyUnusable where it is not as it was signed, or does not fit the tools."""
    signed = newest.publication
    if signed is None:
        raise PolicyUnusable(f"no key here signed publication {newest.number}", newest.version)
    try:
        policy = checked_stored(newest.source, newest.version, catalog)
    except PolicyError as error:
        raise PolicyUnusable(f"it does not fit the tools here: {error.problems[0]}", newest.version) from None
    if (policy.version, digest_of(policy.document)) != (signed.policy_version, signed.digest):
        raise PolicyUnusable(f"its text is not the one that was signed as {newest.version}", newest.version)
    return policy


async def terms_of_change(policies: Policies, catalog: Catalog) -> Terms:
    """What it takes to put another policy in force now. Raises PolicyUnusable."""
    newest = await policies.in_force()
    if newest is None:
        return Terms(number=0, people=1, role=Changes().group)
    changes = opened(newest, catalog).document.defaults.changes
    return Terms(number=newest.number, people=changes.people, role=changes.group)
