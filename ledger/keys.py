"""Keys: master keys, purpose keys derived from them, and wrapped data keys per tenant and customer."""

import base64
import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12
_WRAPPING = "data-key-wrapping"
# What is sealed under a master key begins with this byte and the key's id (8 bytes). What was sealed before there were
# ids begins with its nonce.
_NAMED = b"\x01"


class KeyMaterialError(Exception):
    """A key file is missing or not what it should be. The text names the file, never its content."""


class RootKey:
    """One master key, 32 bytes: what it is called, and what is derived from it (HKDF-SHA256, RFC 5869)."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise KeyMaterialError("the master key must be 32 bytes")
        self._secret = secret
        self._ciphers: dict[str, AESGCM] = {}

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose; the same purpose gives the same key."""
        return HKDF(hashes.SHA256(), 32, salt=None, info=f"counterseal/{purpose}".encode()).derive(self._secret)

    @cached_property
    def _id(self) -> bytes:
        return self.derive("key-id")[:8]

    @property
    def key_id(self) -> str:
        """Its public name, which says nothing of it."""
        return f"mk_{self._id.hex()}"

    @property
    def mark(self) -> bytes:
        """What everything begins with that is sealed under it."""
        return _NAMED + self._id

    def cipher(self, purpose: str) -> AESGCM:
        found = self._ciphers.get(purpose)
        if found is None:
            found = self._ciphers[purpose] = AESGCM(self.derive(purpose))
        return found

    def signing_key(self, purpose: str) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.derive(purpose))

    def signing_key_pem(self, purpose: str) -> bytes:
        """`signing_key(purpose)` as unencrypted PKCS 8 PEM; never written anywhere."""
        return self.signing_key(purpose).private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def verifying_key_pem(self, purpose: str) -> bytes:
        """The public half of `signing_key(purpose)`, as PEM."""
        return (
            self.signing_key(purpose)
            .public_key()
            .public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
        )


class MasterKey:
    """The root of everything secret: the current master key, and former ones that open what they sealed."""

    def __init__(self, current: bytes, *former: bytes) -> None:
        self.keys = tuple(RootKey(secret) for secret in (current, *former))
        """The current one first."""
        if len({key.key_id for key in self.keys}) < len(self.keys):
            raise KeyMaterialError("a master key stands there twice")

    @classmethod
    def of(cls, secrets_: Iterable[bytes]) -> "MasterKey":
        """Of one key or more, the current one first. Raises KeyMaterialError."""
        current, *former = [*secrets_] or [b""]
        return cls(current, *former)

    @classmethod
    def from_file(cls, path: Path) -> "MasterKey":
        """Read a file with a key a line, 32 bytes in base64, the current one first. Raises KeyMaterialError."""
        try:
            return cls.of(decoded_lines(path.read_text()))
        except (OSError, ValueError) as problem:
            raise KeyMaterialError(f"the master key file {path} cannot be read as 32 bytes in base64") from problem

    @property
    def current(self) -> RootKey:
        return self.keys[0]

    @property
    def by_id(self) -> Mapping[str, RootKey]:
        return {key.key_id: key for key in self.keys}

    def seal(self, purpose: str, plaintext: bytes, context: bytes) -> bytes:
        """Under the current key: its mark, a random nonce, AES-256-GCM."""
        nonce = os.urandom(_NONCE)
        key = self.current
        return key.mark + nonce + key.cipher(purpose).encrypt(nonce, plaintext, context)

    def open(self, purpose: str, sealed: bytes, context: bytes) -> bytes:
        """Under the key that it names, or where it is from before there were ids, under whichever fits.

        Raises cryptography's InvalidTag when none of the keys here sealed it, or it was altered.
        """
        for key in self.keys:
            if sealed.startswith(key.mark):
                return _decrypt(key.cipher(purpose), sealed[len(key.mark) :], context)
        for key in self.keys:
            try:
                return _decrypt(key.cipher(purpose), sealed, context)
            except InvalidTag:
                continue
        raise InvalidTag

    def wrap(self, key: bytes, key_id: str) -> bytes:
        """A key for where it is kept: under the current master key, bound to its own id."""
        return self.seal(_WRAPPING, key, key_id.encode())

    def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        """Raises cryptography's InvalidTag when it was wrapped by no master key that is here."""
        return self.open(_WRAPPING, wrapped, key_id.encode())


@dataclass(frozen=True, slots=True)
class DataKey:
    """Encrypts the bodies of one tenant and customer (AES-256-GCM, random nonce first, identifiers authenticated)."""

    key_id: str
    cipher: AESGCM

    def seal(self, plaintext: bytes, context: bytes) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self.cipher.encrypt(nonce, plaintext, context)

    def open(self, sealed: bytes, context: bytes) -> bytes:
        """Raises cryptography's InvalidTag when key, context or bytes are not those it was sealed with."""
        return _decrypt(self.cipher, sealed, context)


def new_data_key() -> tuple[str, bytes]:
    """A fresh (key id, key)."""
    return f"dk_{secrets.token_hex(8)}", AESGCM.generate_key(256)


def decoded_lines(text: str) -> list[bytes]:
    """What stands there in base64, separated by white space. Raises ValueError."""
    return [base64.b64decode(each, validate=True) for each in text.split()]


def _decrypt(cipher: AESGCM, sealed: bytes, context: bytes) -> bytes:
    try:
        return cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context)
    except ValueError:  # so much is cut off that it has no nonce
        raise InvalidTag from None
