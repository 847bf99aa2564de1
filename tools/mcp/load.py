"""Makes a tool of an `mcp.yaml`."""

import re
from pathlib import Path

from pydantic import JsonValue

from schemas.tools import Manifest
from tools.manifest import CatalogError, read_model
from tools.mcp.checking import problems
from tools.mcp.document import McpDocument
from tools.mcp.read import McpRead
from tools.mcp.reviewed import unreviewed
from tools.mcp.write import McpWrite

FILE = "mcp.yaml"


def load_declared(file: Path, manifest: Manifest) -> McpRead | McpWrite:
    """The tool that a file declares. Raises CatalogError: file, field, and what is wrong."""
    document = _sending(read_model(file, McpDocument))
    found = [*problems(document, manifest), *unreviewed(file.parent, document.pins)]
    if found:
        raise CatalogError([f"{file}: {problem}" for problem in found])
    if document.read is not None:
        return McpRead(manifest, document, document.read)
    if document.write is None or document.confirmed is None:
        raise CatalogError([f"{file}: write: is missing"])
    return McpWrite(manifest.name, document, document.write, document.confirmed)


def _sending(document: McpDocument) -> McpDocument:
    """Where it does not say what is sent, these are the tool's own arguments, each by its name."""
    own: dict[str, JsonValue] = {name: f"$args.{name}" for name in document.arguments}
    calls = {"read": document.read, "write": document.write}
    filled = {
        name: call.model_copy(update={"send": own})
        for name, call in calls.items()
        if call is not None and call.send is None
    }
    return document.model_copy(update=filled)


def repinned(text: str, tool: str, old: str, new: str) -> str:
    """The text of a file with another pin for a tool of the upstream; everything else in it stays as it is written."""
    call = rf"(\btool: *[\"']?{re.escape(tool)}[\"']?[ \t]*(?:#[^\n]*)?(?:\n *|, *)pin: *[\"']?){old}"
    return re.sub(call, lambda found: found[1] + new, text)
