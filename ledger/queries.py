"""Named SQL: `sql/<file>.sql` holds blocks that start with `-- name: <query>`; the line after it says what it does."""

import re
from importlib.resources import files

_BLOCK = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def load(file: str) -> dict[str, str]:
    """The queries of one file by name."""
    text = files("ledger").joinpath("sql", f"{file}.sql").read_text()
    parts = _BLOCK.split(text)
    return dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
