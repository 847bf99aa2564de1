"""The policy of this service: loaded, and checked against the tools it has."""

from pathlib import Path

from policy.load import load_policy
from policy.model import Policy
from policy.vocabulary import Vocabulary
from tools.arguments import object_schema
from tools.catalog import Catalog, Entry
from tools.protocol import WriteTool


def load_checked(path: Path, catalog: Catalog) -> Policy:
    """The policy in a file or folder. Raises PolicyError, also for a name that no tool, argument or fact has."""
    beside = {entry.manifest.name: entry.policy_file for entry in catalog.all() if entry.policy_file is not None}
    return load_policy(path, {entry.manifest.name: _vocabulary(entry) for entry in catalog.all()}, beside)


def _vocabulary(entry: Entry) -> Vocabulary:
    tool = entry.tool
    arguments = object_schema(tool.arguments_model)
    if isinstance(tool, WriteTool):
        facts = object_schema(tool.facts_model, mode="serialization")
        manifest = entry.manifest
        unsaid = (*tool.untrusted_arguments, *manifest.redact)
        return Vocabulary.of(arguments, facts, unsaid, manifest.capability_classes, manifest.roles)
    return Vocabulary.of(arguments)
