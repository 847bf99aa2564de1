"""Verifier keys, checkpoints and cosignatures: https://c2sp.org/signed-note, tlog-checkpoint and tlog-cosignature."""

import base64
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

_LOG, _COSIGNER = 1, 4
_NAME = re.compile(r"[^\s+]+")
_SIZE = re.compile(r"0|[1-9][0-9]{0,18}")
_SIGNATURE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")


class Malformed(Exception):
    """It is not what it should be."""


def is_name(text: str) -> bool:
    """Whether a key can have that name."""
    return _NAME.fullmatch(text) is not None


def unbase64(text: str) -> bytes:
    """RFC 4648, section 4, in its one way. Raises Malformed."""
    try:
        found = base64.b64decode(text, validate=True)
    except ValueError:
        raise Malformed("that is no base64") from None
    if base64.b64encode(found).decode() != text:
        raise Malformed("that is no base64 as it is written")
    return found


def hash_in(text: str) -> bytes:
    """The 32 bytes of a line. Raises Malformed."""
    found = unbase64(text)
    if len(found) != 32:
        raise Malformed("that is no hash")
    return found


def size_in(text: str) -> int:
    """A number of leaves. Raises Malformed."""
    if not _SIZE.fullmatch(text) or int(text) >= 1 << 63:
        raise Malformed("that is no size")
    return int(text)


@dataclass(frozen=True)
class LogKey:
    """The public key that a log signs with. Its name is the log's origin."""

    name: str
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "LogKey":
        """Read `name+keyid+base64`. Raises Malformed."""
        name, _, rest = text.partition("+")
        key_id, _, encoded = rest.partition("+")
        material = unbase64(encoded)
        key = cls(name, material[1:])
        if not is_name(name) or len(material) != 33 or material[0] != _LOG or key.id.hex() != key_id:
            raise Malformed("that is no verifier key of a log, or it is damaged")
        return key

    @property
    def id(self) -> bytes:
        return _key_id(self.name, _LOG, self.public)

    def __str__(self) -> str:
        return _verifier_key(self.name, _LOG, self.public)


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint and its signatures: `note` is all of it, `text` what was signed."""

    note: str
    text: str
    origin: str
    size: int
    root: bytes
    extensions: tuple[str, ...]
    signatures: tuple[tuple[str, bytes], ...]

    @classmethod
    def parse(cls, note: str) -> "Checkpoint":
        """Raises Malformed."""
        text, blank, signatures = note.rpartition("\n\n")
        lines = text.split("\n")
        control = any(character < " " and character != "\n" for character in note)
        if not blank or not signatures.endswith("\n") or control or len(lines) < 3 or not all(lines):
            raise Malformed("that is no checkpoint")
        read = [_SIGNATURE.fullmatch(line) for line in signatures[:-1].split("\n")]
        signed = tuple((each[1], unbase64(each[2])) for each in read if each is not None)
        if len(signed) != len(read) or any(len(signature) < 5 for _, signature in signed):
            raise Malformed("that is no signature")
        return cls(note, f"{text}\n", lines[0], size_in(lines[1]), hash_in(lines[2]), tuple(lines[3:]), signed)

    def signer(self, keys: Iterable[LogKey]) -> LogKey | None:
        """Which of these keys signed it. None where none did, or where one is named and did not."""
        found: LogKey | None = None
        for name, signature in self.signatures:
            for key in keys:
                if (name, signature[:4]) == (key.name, key.id):
                    try:
                        Ed25519PublicKey.from_public_bytes(key.public).verify(signature[4:], self.text.encode())
                    except InvalidSignature:
                        return None
                    found = key
        return found


@dataclass(frozen=True)
class Cosigner:
    """The witness's own name and key."""

    name: str
    private: Ed25519PrivateKey

    @property
    def verifier_key(self) -> str:
        return _verifier_key(self.name, _COSIGNER, self._public)

    def cosign(self, text: str, time: int) -> str:
        """A signature line over the text of a checkpoint. `time` is in seconds since the epoch."""
        signature = self.private.sign(f"cosignature/v1\ntime {time}\n{text}".encode())
        signed = _key_id(self.name, _COSIGNER, self._public) + time.to_bytes(8, "big") + signature
        return f"— {self.name} {base64.b64encode(signed).decode()}\n"

    @property
    def _public(self) -> bytes:
        return self.private.public_key().public_bytes_raw()


def _key_id(name: str, kind: int, public: bytes) -> bytes:
    return hashlib.sha256(f"{name}\n".encode() + bytes([kind]) + public).digest()[:4]


def _verifier_key(name: str, kind: int, public: bytes) -> str:
    material = base64.b64encode(bytes([kind]) + public).decode()
    return f"{name}+{_key_id(name, kind, public).hex()}+{material}"
