"""The policy of this service: of files, or the one that is published."""

from pathlib import Path

from activities.policies import Published
from ledger.policies import Policies
from policy.in_force import Fixed, InForce
from policy.load import load_policy
from policy.model import Policy
from tools.catalog import Catalog
from tools.vocabularies import sections, vocabularies

PUBLISHED = Path("published")
"""In the place of a file: the policy that is published."""


def load_checked(path: Path, catalog: Catalog) -> Policy:
    """The policy in a file or folder. Raises PolicyError, also for a name that no tool, argument or fact has."""
    return load_policy(path, vocabularies(catalog), sections(catalog))


def in_force(path: Path, policies: Policies, catalog: Catalog) -> InForce:
    """Where a process has its policy from. Raises PolicyError for a file."""
    return Published(policies, catalog) if path == PUBLISHED else Fixed(load_checked(path, catalog))
