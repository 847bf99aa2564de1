"""Checkpoints: signed tree heads as text, to be kept anywhere. Pure.

A signed note (https://c2sp.org/signed-note) whose text is a checkpoint (https://c2sp.org/tlog-checkpoint) with lines of
ours added, so that seals form a chain. Witnesses add cosignatures (https://c2sp.org/tlog-cosignature).
"""

import base64
import binascii
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

NO_SEAL = bytes(32)
"""What the first seal names as the one before it."""

_LOG, _WITNESS = 1, 4
_NAME = re.compile(r"[^\s+]+")
_SIGNATURE = re.compile(r"— ([^\s+]+) ([A-Za-z0-9+/]+={0,2})")
_TEXT = re.compile(
    r"(?P<origin>[^\s+]+)\n(?P<size>0|[1-9]\d{0,18})\n(?P<root>[A-Za-z0-9+/]{43}=)\n"
    r"seal (?P<number>[1-9]\d{0,18})\nprevious (?P<previous>[A-Za-z0-9+/]{43}=)\n"
    r"time (?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z)\n(?:next-key (?P<next_key>[^\s]+)\n)?"
)


class BadCheckpoint(Exception):
    """The text is no checkpoint, or no trusted key signed it. The text is ours, and says which."""


@dataclass(frozen=True, slots=True)
class VerifierKey:
    """A public key by name: of the ledger (`kind` 1), or of a witness (`kind` 4)."""

    name: str
    kind: int
    public: bytes

    @classmethod
    def parse(cls, text: str) -> "VerifierKey":
        """Read `name+keyid+base64`. Raises BadCheckpoint."""
        name, _, rest = text.strip().partition("+")
        stated, _, encoded = rest.partition("+")
        try:
            material = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            material = b""
        if not _NAME.fullmatch(name) or len(material) != 33 or material[0] not in (_LOG, _WITNESS):
            raise BadCheckpoint("that is no verifier key: name+keyid+base64")
        key = cls(name, material[0], material[1:])
        if key.key_id.hex() != stated:
            raise BadCheckpoint("that verifier key is damaged: its id is not its own")
        return key

    @property
    def key_id(self) -> bytes:
        return hashlib.sha256(f"{self.name}\n".encode() + bytes([self.kind]) + self.public).digest()[:4]

    def __str__(self) -> str:
        material = base64.b64encode(bytes([self.kind]) + self.public).decode()
        return f"{self.name}+{self.key_id.hex()}+{material}"

    def signed(self, text: str, signature: bytes) -> bool:
        """Whether `signature` is this key's over the text of a note."""
        message = text.encode()
        if self.kind == _WITNESS:
            time, signature = int.from_bytes(signature[:8], "big"), signature[8:]
            message = f"cosignature/v1\ntime {time}\n".encode() + message
        try:
            Ed25519PublicKey.from_public_bytes(self.public).verify(signature, message)
        except InvalidSignature:
            return False
        return True


@dataclass(frozen=True, slots=True)
class SealKey:
    """The private half, held by whoever seals."""

    name: str
    private: Ed25519PrivateKey

    @property
    def public(self) -> VerifierKey:
        return VerifierKey(self.name, _LOG, self.private.public_key().public_bytes_raw())

    def sign(self, text: str) -> str:
        """The text as a signed note."""
        return f"{text}\n{signature_line(self.public, self.private.sign(text.encode()))}"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The tree of `size` leaves at seal `number`. `previous`: SHA-256 of the note before it, signature and all.

    `next_key`: the key that signs from the next seal on, where this is the last one of its own.
    """

    origin: str
    size: int
    root: bytes
    number: int
    previous: bytes
    time: datetime
    next_key: VerifierKey | None = None

    @property
    def text(self) -> str:
        lines = [self.origin, str(self.size), _base64(self.root), f"seal {self.number}"]
        lines += [f"previous {_base64(self.previous)}", f"time {self.time.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"]
        if self.next_key is not None:
            lines.append(f"next-key {self.next_key}")
        return "".join(f"{line}\n" for line in lines)

    @classmethod
    def parse(cls, note: str) -> "Checkpoint":
        """What the note says, signed or not. Raises BadCheckpoint."""
        text, _ = split(note)
        read = _TEXT.fullmatch(text)
        if read is None:
            raise BadCheckpoint("that is no checkpoint of a ledger")
        try:
            time = datetime.fromisoformat(read["time"])
        except ValueError:
            raise BadCheckpoint("that is no checkpoint of a ledger") from None
        found = cls(
            read["origin"],
            int(read["size"]),
            base64.b64decode(read["root"]),
            int(read["number"]),
            base64.b64decode(read["previous"]),
            time,
            None if read["next_key"] is None else VerifierKey.parse(read["next_key"]),
        )
        if found.text != text:
            raise BadCheckpoint("that is no checkpoint of a ledger")
        return found


def note_hash(note: str) -> bytes:
    """What the next seal names as the one before it."""
    return hashlib.sha256(note.encode()).digest()


def split(note: str) -> tuple[str, list[str]]:
    """(text, signature lines). Raises BadCheckpoint."""
    text, blank, lines = note.rpartition("\n\n")
    if not blank or not lines.endswith("\n"):
        raise BadCheckpoint("that is no signed note")
    return f"{text}\n", lines[:-1].split("\n")


def signature_line(key: VerifierKey, signature: bytes) -> str:
    return f"— {key.name} {_base64(key.key_id + signature)}\n"


def signers(note: str, keys: Sequence[VerifierKey]) -> list[VerifierKey]:
    """Which of these keys signed the note. Raises BadCheckpoint where one is named that did not."""
    text, lines = split(note)
    found: list[VerifierKey] = []
    for line in lines:
        read = _SIGNATURE.fullmatch(line)
        try:
            signed = b"" if read is None else base64.b64decode(read[2], validate=True)
        except binascii.Error:
            signed = b""
        if read is None or len(signed) < 5 or _base64(signed) != read[2]:
            raise BadCheckpoint("that is no signed note")
        for key in keys:
            if (key.name, key.key_id) == (read[1], signed[:4]):
                if not key.signed(text, signed[4:]):
                    raise BadCheckpoint(f"the signature of {key.name} ({key.key_id.hex()}) does not hold")
                found.append(key)
    return found


def _base64(value: bytes) -> str:
    return base64.b64encode(value).decode()
