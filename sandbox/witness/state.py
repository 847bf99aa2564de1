"""What the witness keeps in its folder: its own key, and of each log the newest checkpoint that it cosigned."""

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from sandbox.witness.consistency import EMPTY
from sandbox.witness.notes import Cosigner, LogKey, Malformed, is_name


class Unusable(Exception):
    """The folder cannot be used. The text is ours."""


@dataclass(frozen=True)
class Seen:
    """Of one log: the newest checkpoint that was cosigned, and the keys that a checkpoint of it named or gave up."""

    size: int = 0
    root: bytes = EMPTY
    note: str = ""
    followed: frozenset[LogKey] = frozenset()
    retired: frozenset[LogKey] = frozenset()

    @property
    def text(self) -> str:
        """What was signed."""
        return self.note.rpartition("\n\n")[0] + "\n"


class Folder:
    """One witness's; no second process may have it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def held(self) -> Generator[None]:
        """Have it for oneself. Raises Unusable and OSError."""
        self._path.mkdir(parents=True, exist_ok=True, mode=0o700)
        with (self._path / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Unusable("another witness runs on that folder") from None
            yield

    def cosigner(self, name: str | None) -> Cosigner:
        """The witness's key, made at its first start. Raises Unusable where it has another name."""
        path = self._path / "key.json"
        if name is not None and not is_name(name):
            raise Unusable("a name has neither spaces nor a plus")
        if not path.exists():
            made = name or f"counterseal.witness/{secrets.token_hex(16)}"
            self._write(path, {"name": made, "seed": Ed25519PrivateKey.generate().private_bytes_raw().hex()})
        kept = _read(path)
        try:
            found = Cosigner(str(kept["name"]), Ed25519PrivateKey.from_private_bytes(bytes.fromhex(kept["seed"])))
        except (KeyError, TypeError, ValueError):
            raise Unusable("key.json is damaged") from None
        if name not in (None, found.name):
            raise Unusable(f"that folder is of the witness {found.name}")
        return found

    def seen(self, origin: str) -> Seen:
        """Raises Unusable where it is damaged: to begin anew would be to forget."""
        path = self._of(origin)
        if not path.exists():
            return Seen()
        kept = _read(path)
        try:
            keys = {name: frozenset(LogKey.parse(key) for key in kept[name]) for name in ("followed", "retired")}
            found = Seen(kept["size"], bytes.fromhex(kept["root"]), kept["note"], **keys)
            if (
                kept["origin"] != origin
                or type(found.size) is not int
                or type(found.note) is not str
                or len(found.root) != 32
            ):
                raise ValueError
        except (KeyError, TypeError, ValueError, Malformed):
            raise Unusable(f"{path.name} is damaged") from None
        return found

    def keep(self, origin: str, seen: Seen) -> None:
        """On disk when this returns. Raises OSError."""
        keys = {"followed": sorted(map(str, seen.followed)), "retired": sorted(map(str, seen.retired))}
        state = {"origin": origin, "size": seen.size, "root": seen.root.hex(), "note": seen.note, **keys}
        self._write(self._of(origin), state)

    def _of(self, origin: str) -> Path:
        return self._path / f"log-{hashlib.sha256(origin.encode()).hexdigest()}.json"

    def _write(self, path: Path, content: dict[str, Any]) -> None:
        """In one step, which a power cut does not undo."""
        draft = path.with_suffix(".draft")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(content, file, ensure_ascii=False, indent=1)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
        folder = os.open(self._path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        raise Unusable(f"{path.name} is damaged") from None
    return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]
