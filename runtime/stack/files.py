"""Where the stack keeps its state, and private files written atomically."""

import os
import secrets
from dataclasses import dataclass
from pathlib import Path

_PRIVATE_FOLDERS = ("keys", "logs", "run", "traces", "temporal", "sandbox")


def write_private(path: Path, text: str) -> None:
    """Replace `path` by `text` in one step; only its owner can read it (mode 0600)."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def read_or_create_secret(path: Path, new: str) -> str:
    """The text in `path`; `new` is written there (mode 0600) when there is no such file."""
    if not path.exists():
        write_private(path, new)
    return path.read_text().strip()


@dataclass(frozen=True)
class DataFolder:
    """The layout under `--data`."""

    root: Path

    def create(self) -> None:
        """Make the folders. Others may pass through the root (Postgres may run as another user), not list it."""
        if not self.root.exists():
            self.root.mkdir(parents=True)
            self.root.chmod(0o711)
        for name in _PRIVATE_FOLDERS:
            (self.root / name).mkdir(mode=0o700, exist_ok=True)

    @property
    def lock(self) -> Path:
        return self.root / "lock"

    @property
    def ports(self) -> Path:
        return self.root / "ports.json"

    @property
    def credentials(self) -> Path:
        return self.root / "credentials.json"

    @property
    def keys(self) -> Path:
        return self.root / "keys"

    @property
    def run(self) -> Path:
        return self.root / "run"

    @property
    def connection(self) -> Path:
        return self.run / "stack.json"

    @property
    def logs(self) -> Path:
        return self.root / "logs"

    @property
    def traces(self) -> Path:
        return self.root / "traces"

    @property
    def postgres(self) -> Path:
        return self.root / "postgres"

    @property
    def temporal(self) -> Path:
        return self.root / "temporal"

    @property
    def sandbox(self) -> Path:
        return self.root / "sandbox"
