"""Reads `manifest.yaml`: strictly, with errors that name the file and the field."""

import json
from collections.abc import Hashable
from pathlib import Path

import yaml
from pydantic import ValidationError

from schemas.tools import Manifest


class CatalogError(Exception):
    """Tools that cannot be loaded. `problems` has one readable line each."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _UniqueKeyLoader(yaml.SafeLoader):
    """A repeated key is an error; YAML 1.2 says so, the parser does not."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, object]:
        seen: set[object] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)  # pyright: ignore[reportUnknownMemberType]  # untyped stub
            if key in seen:
                problem = f"the key {key} is given twice"
                raise yaml.constructor.ConstructorError(None, None, problem, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def load_manifest(path: Path) -> Manifest:
    """The manifest in `path`. Raises CatalogError; an unknown or missing field and a wrong type are problems."""
    try:
        content = _UniqueKeyLoader(path.read_bytes()).get_single_data()
        # Through JSON, since strict JSON mode takes a list for a tuple and still refuses every other conversion.
        return Manifest.model_validate_json(json.dumps(content))
    except (OSError, UnicodeDecodeError) as error:
        raise CatalogError([f"{path}: cannot be read: {type(error).__name__}"]) from error
    except yaml.YAMLError as error:
        raise CatalogError([f"{path}: is not valid YAML: {' '.join(str(error).split())}"]) from error
    except TypeError as error:
        raise CatalogError([f"{path}: holds a value that is neither text, number, list nor mapping"]) from error
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        raise CatalogError([_line(path, each["loc"], each["msg"]) for each in details]) from error


def _line(path: Path, loc: tuple[int | str, ...], message: str) -> str:
    where = ".".join(str(part) for part in loc) or "the whole file"
    return f"{path}: {where}: {message}"
