"""Makes a tool of an `http.yaml`."""

from pathlib import Path

from schemas.tools import Manifest
from tools.http.checking import problems
from tools.http.document import HttpDocument
from tools.http.read import HttpRead
from tools.http.write import HttpWrite
from tools.manifest import CatalogError, read_model

FILE = "http.yaml"


def load_declared(file: Path, manifest: Manifest) -> HttpRead | HttpWrite:
    """The tool that a file declares. Raises CatalogError: file, field, and what is wrong."""
    document = read_model(file, HttpDocument)
    found = problems(document, manifest)
    if found:
        raise CatalogError([f"{file}: {problem}" for problem in found])
    if document.read is not None:
        return HttpRead(manifest.name, document, document.read)
    if not (document.write and document.confirmed and document.inspect):
        raise CatalogError([f"{file}: write: is missing"])
    return HttpWrite(manifest.name, document, document.write, document.confirmed, document.inspect)
