"""A new tool's folder: what its author fills in, and tests that are red until then."""

from collections.abc import Mapping
from pathlib import Path

_TEMPLATES = Path(__file__).parent / "templates"
# Template -> file in the folder.
_ALWAYS = {"manifest.txt": "manifest.yaml", "policy.txt": "policy.yaml", "tests.txt": "tests/test_{name}.py"}
_DECLARED = {"http.txt": "http.yaml"}
_CODE = {"code.txt": "tool.py"}


def scaffold(root: Path, name: str, *, declared: bool) -> list[Path]:
    """Write the folder `root/name`, for a tool that is an `http.yaml` or else a `tool.py`: the files that were made.

    Raises FileExistsError where there is one, OSError where it cannot be written.
    """
    class_name = "".join(part.capitalize() for part in name.split("_"))
    said = {"SYSTEM": "example" if declared else "orders", "CLASS": class_name}
    return write_folder(root, name, _ALWAYS | (_DECLARED if declared else _CODE), said)


def write_folder(root: Path, name: str, files: Mapping[str, str], said: Mapping[str, str]) -> list[Path]:
    """Write the folder `root/name`: each template into its file, with what is `said` in the place of `@NAMES@`.

    Raises FileExistsError where there is one, OSError where it cannot be written.
    """
    folder = root / name
    folder.mkdir(parents=True)
    made: list[Path] = []
    for template, place in files.items():
        file = folder / place.format(name=name)
        file.parent.mkdir(exist_ok=True)
        text = (_TEMPLATES / template).read_text(encoding="utf-8").replace("@NAME@", name)
        for word, value in said.items():
            text = text.replace(f"@{word}@", value)
        file.write_text(text, encoding="utf-8")
        made.append(file)
    return made
