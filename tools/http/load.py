"""Makes a tool of an `http.yaml`."""

from pathlib import Path

from policy.wording import parse_wording
from schemas.tools import Manifest
from tools.http.checking import problems
from tools.http.document import HttpDocument
from tools.http.read import DeclaredRead
from tools.http.write import DeclaredWrite
from tools.manifest import CatalogError, read_model

FILE = "http.yaml"


def load_declared(file: Path, manifest: Manifest) -> DeclaredRead | DeclaredWrite:
    """The tool that a file declares. Raises CatalogError: file, field, and what is wrong."""
    document = read_model(file, HttpDocument)
    found = problems(document, manifest)
    if found:
        raise CatalogError([f"{file}: {problem}" for problem in found])
    if document.read is not None:
        return DeclaredRead(manifest.name, document, document.read, parse_wording(document.done))
    if not (document.write and document.confirmed and document.inspect):
        raise CatalogError([f"{file}: write: is missing"])
    title = parse_wording(document.title or "")
    return DeclaredWrite(manifest.name, document, document.write, document.confirmed, document.inspect, title)
