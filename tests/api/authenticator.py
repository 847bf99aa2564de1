"""An authenticator in software, as far as https://www.w3.org/TR/webauthn-3/ has it: ES256, no attestation."""

import base64
import hashlib
import json
import secrets
from dataclasses import dataclass, field
from html import unescape
from typing import Any

import cbor2
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec

_PRESENT, _VERIFIED, _WITH_KEY = 0x01, 0x04, 0x40


def b64(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


def options_of(html: str) -> dict[str, Any]:
    """What a page asks the browser for."""
    return json.loads(unescape(html.split('data-options="')[1].split('"')[0]))


@dataclass
class Authenticator:
    """Holds one passkey. `verifies`: it asks its user for their finger, face or PIN."""

    origin: str
    verifies: bool = True
    count: int = 0
    credential_id: bytes = field(default_factory=lambda: secrets.token_bytes(16))
    key: ec.EllipticCurvePrivateKey = field(default_factory=lambda: ec.generate_private_key(ec.SECP256R1()))

    def make(self, options: dict[str, Any]) -> str:
        """The browser's answer to `navigator.credentials.create`."""
        numbers = self.key.public_key().public_numbers()
        cose = {1: 2, 3: -7, -1: 1, -2: numbers.x.to_bytes(32, "big"), -3: numbers.y.to_bytes(32, "big")}
        attested = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cbor2.dumps(cose)
        data = self._data(options["rp"]["id"], _WITH_KEY) + attested
        attestation = cbor2.dumps({"fmt": "none", "attStmt": {}, "authData": data})
        client = self._client("webauthn.create", options["challenge"], {})
        return self._answer({"clientDataJSON": b64(client), "attestationObject": b64(attestation)})

    def sign(self, options: dict[str, Any], **changes: Any) -> str:
        """The browser's answer to `navigator.credentials.get`."""
        client = self._client("webauthn.get", options["challenge"], changes)
        data = self._data(options["rpId"], 0)
        signature = self.key.sign(data + hashlib.sha256(client).digest(), ec.ECDSA(hashes.SHA256()))
        return self._answer(
            {"clientDataJSON": b64(client), "authenticatorData": b64(data), "signature": b64(signature)}
        )

    def _data(self, rp_id: str, flags: int) -> bytes:
        self.count += 1
        flags |= _PRESENT | (_VERIFIED if self.verifies else 0)
        return hashlib.sha256(rp_id.encode()).digest() + bytes([flags]) + self.count.to_bytes(4, "big")

    def _client(self, kind: str, challenge: str, changes: dict[str, Any]) -> bytes:
        said = {"type": kind, "challenge": challenge, "origin": self.origin, "crossOrigin": False} | changes
        return json.dumps(said).encode()

    def _answer(self, response: dict[str, str]) -> str:
        name = b64(self.credential_id)
        return json.dumps({"id": name, "rawId": name, "type": "public-key", "response": response})
