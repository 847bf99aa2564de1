"""A new tool's folder: what its author fills in, and tests that are red until then."""

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
    folder = root / name
    folder.mkdir(parents=True)
    made: list[Path] = []
    for template, place in (_ALWAYS | (_DECLARED if declared else _CODE)).items():
        file = folder / place.format(name=name)
        file.parent.mkdir(exist_ok=True)
        system = "example" if declared else "orders"
        text = (_TEMPLATES / template).read_text(encoding="utf-8")
        class_name = "".join(part.capitalize() for part in name.split("_"))
        file.write_text(
            text.replace("@NAME@", name).replace("@SYSTEM@", system).replace("@CLASS@", class_name), encoding="utf-8"
        )
        made.append(file)
    return made
