"""Verifier keys and signed checkpoints (https://c2sp.org/signed-note, tlog-checkpoint, tlog-cosignature)."""

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

LEDGER, WITNESS = 1, 4
_SIGNATURE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_CHECKPOINT = re.compile(
    r"([^\s+]+)\n(0|[1-9]\d{0,18})\n([A-Za-z0-9+/]{43}=)\nseal ([1-9]\d{0,18})\nprevious ([A-Za-z0-9+/]{43}=)\n"
    r"time (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)\n(?:next-key (\S+)\n)?",
    re.ASCII,
)


class NotHeld(Exception):
    """What does not hold, and where: one sentence."""


def check(right: bool, where: str, what: str) -> None:
    if not right:
        raise NotHeld(f"{where}: {what}")


def _unbase64(text: str) -> bytes:
    """Raises ValueError, also where these bytes are written in another way than the one."""
    found = base64.b64decode(text, validate=True)
    if base64.b64encode(found).decode() != text:
        raise ValueError("not canonical")
    return found


@dataclass(frozen=True)
class Key:
    """A verifier key: of a ledger (`kind` 1), or of a witness (4)."""

    name: str
    kind: int
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "Key":
        """Read `name+keyid+base64`. Raises NotHeld."""
        try:
            name, key_id, encoded = text.strip().split("+", 2)
            material = _unbase64(encoded)
            key = cls(name, material[0], material[1:])
            right = len(key.public) == 32 and key.kind in (LEDGER, WITNESS) and key.id.hex() == key_id
        except (ValueError, IndexError):
            right, key = False, None
        if key is None or not right:
            raise NotHeld("the key: that is no verifier key (name+keyid+base64), or it is damaged")
        return key

    @property
    def id(self) -> bytes:
        return hashlib.sha256(self.name.encode() + b"\n" + bytes([self.kind]) + self.public).digest()[:4]

    def signed(self, text: str, signature: bytes) -> bool:
        message = text.encode()
        if self.kind == WITNESS:
            time, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            message = f"cosignature/v1\ntime {time}\n".encode() + message
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


class Checkpoint:
    """A signed checkpoint, read. `text` is what is signed."""

    def __init__(self, note: str, where: str) -> None:
        """Raises NotHeld."""
        text, _, signatures = note.rpartition("\n\n")
        read = _CHECKPOINT.fullmatch(f"{text}\n")
        lines = [_SIGNATURE.fullmatch(line) for line in signatures.removesuffix("\n").split("\n")]
        if read is None or None in lines or not signatures.endswith("\n"):
            raise NotHeld(f"{where}: that is no signed checkpoint of a ledger")
        self.note, self.text, self.where = note, f"{text}\n", where
        self.origin, self.size, self.number, self.time = read[1], int(read[2]), int(read[4]), read[6]
        self.next_key = None if read[7] is None else Key.parse(read[7])
        try:
            self.root, self.previous = _unbase64(read[3]), _unbase64(read[5])
            self._signatures = [(line[1], _unbase64(line[2])) for line in lines if line is not None]
        except ValueError:
            raise NotHeld(f"{where}: a hash or signature is damaged") from None

    def signers(self, keys: Sequence[Key]) -> list[Key]:
        """Those of these keys that signed. Raises NotHeld where one is named that did not."""
        found = list[Key]()
        for name, signed in self._signatures:
            for key in keys:
                if (key.name, key.id) == (name, signed[:4]):
                    check(key.signed(self.text, signed[4:]), self.where, f"the signature of {name} does not hold")
                    found.append(key)
        return found
