"""The names that conditions about each tool may use."""

from pathlib import Path

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
    tool = entry.tool
    arguments = object_schema(tool.arguments_model)
    if isinstance(tool, WriteTool):
        facts = object_schema(tool.facts_model, mode="serialization")
        manifest = entry.manifest
        unsaid = (*tool.untrusted_arguments, *manifest.redact)
        return Vocabulary.of(arguments, facts, unsaid, manifest.capability_classes, manifest.roles)
    return Vocabulary.of(arguments)
