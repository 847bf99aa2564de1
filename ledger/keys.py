"""Keys: one master key, purpose keys derived from it, and wrapped data keys per tenant and customer."""

import base64
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12


class KeyMaterialError(Exception):
    """A key file is missing or not what it should be. The text names the file, never its content."""


class MasterKey:
    """The root secret, 32 bytes. Everything else is derived from it (HKDF-SHA256, RFC 5869) or wrapped by it."""

    def __init__(self, secret: bytes) -> None:
        if len(secret) != 32:
            raise KeyMaterialError("the master key must be 32 bytes")
        self._secret = secret
        self._wrapping = AESGCM(self.derive("data-key-wrapping"))

    @classmethod
    def from_file(cls, path: Path) -> "MasterKey":
        """Read a file that holds 32 bytes in base64. Raises KeyMaterialError."""
        try:
            return cls(base64.b64decode(path.read_text().strip(), validate=True))
        except (OSError, ValueError) as problem:
            raise KeyMaterialError(f"the master key file {path} cannot be read as 32 bytes in base64") from problem

    def derive(self, purpose: str) -> bytes:
        """A 32-byte key for one purpose; the same purpose gives the same key."""
        return HKDF(hashes.SHA256(), 32, salt=None, info=f"counterseal/{purpose}".encode()).derive(self._secret)

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

    def wrap(self, key: bytes, key_id: str) -> bytes:
        nonce = os.urandom(_NONCE)
        return nonce + self._wrapping.encrypt(nonce, key, key_id.encode())

    def unwrap(self, wrapped: bytes, key_id: str) -> bytes:
        """Raises cryptography's InvalidTag when it was wrapped by another master key."""
        return self._wrapping.decrypt(wrapped[:_NONCE], wrapped[_NONCE:], key_id.encode())


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
        return self.cipher.decrypt(sealed[:_NONCE], sealed[_NONCE:], context)


def new_data_key() -> tuple[str, bytes]:
    """A fresh (key id, key)."""
    return f"dk_{secrets.token_hex(8)}", AESGCM.generate_key(256)
