"""Every tool there is: folders under `tools/` (and under an extra path) whose manifest and code agree."""

import importlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from pydantic import JsonValue

import tools
from schemas.tools import Manifest, Phase, ToolDescription
from tools.agreement import AnyTool, disagreements
from tools.arguments import object_schema, validate
from tools.http import load as http
from tools.manifest import CatalogError, load_manifest
from tools.mcp import load as mcp
from tools.mcp.read import McpRead
from tools.mcp.write import McpWrite
from tools.protocol import Arguments, ReadTool, Refusal, WriteTool

__all__ = ["AnyTool", "Catalog", "CatalogError", "Entry"]

BUILT_IN = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Entry:
    """A tool and what it declares about itself."""

    manifest: Manifest
    tool: AnyTool
    description: ToolDescription
    manifest_file: Path
    policy_file: Path | None = None
    """Its section of a policy that does not name it."""
    upstream: str | None = None
    """The MCP server whose tools it calls."""
    pins: Mapping[str, str] = field(default_factory=dict[str, str])
    """Those tools, each with what was reviewed of it."""

    def offered_to(self, allowed: Collection[str]) -> bool:
        """Whether a run that was opened with these tools may call it: an internal tool is never offered."""
        return self.manifest.published and self.manifest.name in allowed


class Catalog:
    """Read-only, loaded once per process."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self._entries = {entry.manifest.name: entry for entry in sorted(entries, key=lambda each: each.manifest.name)}

    @classmethod
    def load(cls, *extra: Path) -> "Catalog":
        """The built-in tools and those of each folder in `extra`.

        Raises CatalogError with one line per problem: file, field, and what is wrong.
        """
        folders, problems = _folders([BUILT_IN, *extra])
        entries: list[Entry] = []
        for folder in folders:
            try:
                entries.append(_load_entry(folder))
            except CatalogError as error:
                problems.extend(error.problems)
        problems.extend(_unknown_tools(entries))
        if problems:
            raise CatalogError(problems)
        return cls(entries)

    def get(self, name: str) -> Entry | None:
        return self._entries.get(name)

    def all(self) -> tuple[Entry, ...]:
        """By name."""
        return tuple(self._entries.values())

    def published(self) -> tuple[Entry, ...]:
        """What an agent may be offered, by name. The others are internal."""
        return tuple(entry for entry in self._entries.values() if entry.manifest.published)

    def describe(self, name: str) -> ToolDescription:
        """One entry of the tool list. Raises KeyError for an unknown name."""
        return self._entries[name].description

    def validate_arguments(self, name: str, arguments: Mapping[str, JsonValue]) -> Arguments | Refusal:
        """The tool's own argument model, or INVALID_INPUT. Raises KeyError for an unknown name."""
        return validate(cast("type[Arguments]", self._entries[name].tool.arguments_model), arguments)


def _folders(roots: Sequence[Path]) -> tuple[list[Path], list[str]]:
    """Every folder with a manifest, and a problem for each name that two roots have."""
    found: dict[str, Path] = {}
    problems: list[str] = []
    for root in roots:
        if not root.is_dir():
            problems.append(f"{root}: is not a folder")
            continue
        if root != BUILT_IN and str(root) not in tools.__path__:
            # Makes `tools.<name>` importable from the extra path too, so that a tool is written the same way anywhere.
            tools.__path__.append(str(root))
        for manifest in sorted(root.glob("*/manifest.yaml")):
            name = manifest.parent.name
            if name in found:
                problems.append(f"{manifest}: there is already a tool {name} in {found[name].parent}")
            elif root != BUILT_IN and ((BUILT_IN / name).exists() or (BUILT_IN / f"{name}.py").exists()):
                problems.append(f"{manifest}: {name} is what a part of the service is called")
            else:
                found[name] = manifest.parent
    return list(found.values()), problems


def _load_entry(folder: Path) -> Entry:
    manifest_file, policy_file = folder / "manifest.yaml", folder / "policy.yaml"
    manifest = load_manifest(manifest_file)
    tool = _load_tool(folder, manifest)
    problems = [f"{manifest_file}: {problem}" for problem in disagreements(manifest, tool, folder.name)]
    if problems:
        raise CatalogError(problems)
    document = tool.document if isinstance(tool, McpRead | McpWrite) else None
    return Entry(
        manifest,
        tool,
        _describe(manifest, tool),
        manifest_file,
        policy_file if policy_file.exists() else None,
        upstream=None if document is None else document.upstream,
        pins={} if document is None else document.pins,
    )


def _load_tool(folder: Path, manifest: Manifest) -> AnyTool:
    code = folder / "tool.py"
    for name, load_declared in ((http.FILE, http.load_declared), (mcp.FILE, mcp.load_declared)):
        declared = folder / name
        if declared.exists():
            beside = [each for each in ("tool.py", mcp.FILE) if each != name and (folder / each).exists()]
            if beside:
                raise CatalogError([f"{declared}: there is a {beside[0]} beside it; a tool is one of both"])
            return load_declared(declared, manifest)
    try:
        module = importlib.import_module(f"tools.{folder.name}.tool")
    except Exception as error:
        raise CatalogError([f"{code}: cannot be imported: {type(error).__name__}: {error}"]) from error
    tool = getattr(module, "TOOL", None)
    if not isinstance(tool, ReadTool | WriteTool):
        raise CatalogError([f"{code}: TOOL must be a ReadTool or a WriteTool"])
    return cast("AnyTool", tool)


def _unknown_tools(entries: Sequence[Entry]) -> Iterator[str]:
    """A problem for each tool that a manifest names and that is not there."""
    names = {entry.manifest.name for entry in entries}
    for entry in entries:
        manifest = entry.manifest
        phase = manifest.phase or Phase(after=(manifest.name,))
        named = [("undo_tool", manifest.undo_tool)] if manifest.undo_tool else []
        named += [("phase.after", name) for name in phase.after] + [("phase.until", name) for name in phase.until]
        for where, name in named:
            if name not in names:
                yield f"{entry.manifest_file}: {where}: there is no tool {name}"


def _describe(manifest: Manifest, tool: AnyTool) -> ToolDescription:
    """`annotations` are those of the Model Context Protocol: hints, never permissions.

    Writes are idempotent by their `idempotency_key`, reads by nature.
    """
    return ToolDescription(
        name=manifest.name,
        version=manifest.version,
        description=manifest.description,
        input_schema=object_schema(tool.arguments_model),
        output_schema=object_schema(tool.result_model, mode="serialization"),
        annotations={
            "title": manifest.title,
            "readOnlyHint": not manifest.writes,
            "destructiveHint": manifest.writes and manifest.reversibility != "reversible",
            "idempotentHint": True,
        },
    )
