"""Reads `manifest.yaml`: strictly, with errors that name the file and the field."""

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from schemas import strict_yaml
from schemas.base import Model
from schemas.tools import Manifest

M = TypeVar("M", bound=Model)


class CatalogError(Exception):
    """Tools that cannot be loaded. `problems` has one readable line each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


def load_manifest(path: Path) -> Manifest:
    """The manifest in `path`. Raises CatalogError; an unknown field and a wrong type are problems."""
    return read_model(path, Manifest)


def read_model(path: Path, model: type[M]) -> M:
    """What a YAML file of a tool's folder says, as `model`. Raises CatalogError: file, field, and what is wrong."""
    try:
        return model.model_validate_json(strict_yaml.read(path).as_json)
    except strict_yaml.UnreadableError as error:
        raise CatalogError([f"{path}: {error}"]) from None
    except ValidationError as error:
        raise CatalogError([_line(path, each) for each in error.errors(include_url=False)]) from None


def _line(path: Path, error: ErrorDetails) -> str:
    where = ".".join(str(part) for part in error["loc"] if part != "[key]")
    return ": ".join(filter(None, (str(path), where, strict_yaml.said(error))))
