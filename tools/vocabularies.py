"""The names that conditions about each tool may use."""

from pathlib import Path

from policy.document import kinds_of
from policy.vocabulary import Vocabulary
from tools.arguments import object_schema
from tools.catalog import Catalog, Entry
from tools.protocol import WriteTool


def vocabularies(catalog: Catalog) -> dict[str, Vocabulary]:
    """By tool."""
    return {entry.manifest.name: _vocabulary(entry) for entry in catalog.all()}


def sections(catalog: Catalog) -> dict[str, Path]:
    """Files with what is decided about a tool that lie beside it, by tool."""
    return {entry.manifest.name: entry.policy_file for entry in catalog.all() if entry.policy_file is not None}


def _vocabulary(entry: Entry) -> Vocabulary:
    tool, manifest = entry.tool, entry.manifest
    arguments = object_schema(tool.arguments_model)
    kinds = kinds_of(manifest.capability_classes, manifest.reversibility)
    if isinstance(tool, WriteTool):
        facts = object_schema(tool.facts_model, mode="serialization")
        unsaid = (*tool.untrusted_arguments, *manifest.redact)
        return Vocabulary.of(arguments, facts, unsaid, manifest.capability_classes, manifest.roles, kinds)
    return Vocabulary.of(arguments, kinds=kinds)
