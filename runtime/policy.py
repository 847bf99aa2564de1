"""The policy of this service: of files, or the one that is published."""

import re
from pathlib import Path

import structlog

from activities.policies import Published, checked_stored
from ledger.policies import Policies
from policy.in_force import Fixed, InForce
from policy.load import load_policy
from policy.model import Policy
from policy.problems import PolicyError
from tools.catalog import Catalog
from tools.vocabularies import sections, vocabularies

PUBLISHED = Path("published")
"""In the place of a file: the policy that is published."""
_VERSION = re.compile(r"[a-z][a-z0-9_-]{1,62}@[0-9a-f]{12}")
_log = structlog.get_logger()


def load_checked(path: Path, catalog: Catalog) -> Policy:
    """The policy in a file or folder. Raises PolicyError, also for a name that no tool, argument or fact has."""
    return load_policy(path, vocabularies(catalog), sections(catalog))


def in_force(path: Path, policies: Policies, catalog: Catalog) -> InForce:
    """Where a process has its policy from. Raises PolicyError for a file."""
    return Published(policies, catalog) if path == PUBLISHED else Fixed(load_checked(path, catalog))


async def candidate(named: Path | None, policies: Policies, catalog: Catalog) -> Policy | None:
    """What is asked beside the policy in force: of a file or folder, or what the ledger keeps under a version. None,
    which is logged, where it cannot be used: a candidate keeps no process from starting."""
    if named is None:
        return None
    try:
        if not _VERSION.fullmatch(str(named)):
            return load_checked(named, catalog)
        source = await policies.source(str(named))
        if source is not None:
            return checked_stored(source, str(named), catalog)
        because = "the ledger keeps no policy of that version"
    except PolicyError as error:
        because = str(error.problems[0])
    _log.error("shadow_unusable", because=because)
    return None
