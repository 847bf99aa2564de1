"""Signed webhooks: https://developer.paypal.com/api/rest/webhooks/rest/#self-verification-method

Signed are `transmission id|transmission time|webhook id|CRC-32 of the body`, with a key whose certificate is served at
`/v1/notifications/certs/{name}` and chains to a root of this simulator's own.
"""

import base64
import json
import uuid
import zlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from sandbox.paypal import refunds, shapes
from sandbox.paypal.shapes import Shape
from sandbox.state import State, to_iso

SIGNER = "messageverificationcerts.paypal.example"
_VALID = timedelta(days=365)
_Key = rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Signer:
    """The signing certificate, its root (both PEM) and its key."""

    name: str
    root: str
    leaf: str
    key: rsa.RSAPrivateKey


def signer(state: State) -> Signer:
    """The signer of this state; made, with its root, when first asked for. Call in a transaction."""
    row = state.db.execute("SELECT * FROM certificates").fetchone()
    if row is None:
        name = f"CERT-{uuid.uuid4().hex[:8]}"
        state.db.execute("INSERT INTO certificates VALUES (?, ?, ?, ?)", (name, *_new_certificates(state.now_us())))
        row = state.db.execute("SELECT * FROM certificates").fetchone()
    key = serialization.load_pem_private_key(row["key"].encode(), None)
    if not isinstance(key, rsa.RSAPrivateKey):
        raise TypeError("the stored key is no RSA key")
    return Signer(row["name"], row["root"], row["leaf"], key)


def event(state: State, base: str, event_type: str, subject: str) -> bytes:
    """The body of a webhook about a refund, or for `CUSTOMER.DISPUTE.*` about a capture. Raises PayPalError."""
    if event_type.startswith("CUSTOMER.DISPUTE."):
        found = refunds.capture(state, subject)
        transaction = {"seller_transaction_id": found.capture_id, "seller": {"merchant_id": "MERCHANT1"}}
        resource: Shape = {**shapes.dispute(base, found), "disputed_transactions": [transaction]}
        resource_type = "dispute"
    else:
        resource, resource_type = refunds.shape(state, base, refunds.look(state, subject)), "refund"
    event_id = f"WH-{shapes.new_id()}-{shapes.new_id()}"
    whole = {
        "id": event_id,
        "event_version": "1.0",
        "create_time": to_iso(state.now_us()),
        "resource_type": resource_type,
        "resource_version": "2.0",
        "event_type": event_type,
        "summary": "An example event",
        "resource": resource,
        "links": [{"href": f"{base}/v1/notifications/webhooks-events/{event_id}", "rel": "self", "method": "GET"}],
    }
    return json.dumps(whole, separators=(",", ":")).encode()


def headers(state: State, base: str, webhook_id: str, body: bytes) -> dict[str, str]:
    """The headers that make this body genuine."""
    by = signer(state)
    transmission_id, at = str(uuid.uuid4()), to_iso(state.now_us() // 1_000_000 * 1_000_000)
    message = f"{transmission_id}|{at}|{webhook_id}|{zlib.crc32(body)}".encode()
    return {
        "PAYPAL-AUTH-ALGO": "SHA256withRSA",
        "PAYPAL-CERT-URL": f"{base}/v1/notifications/certs/{by.name}",
        "PAYPAL-TRANSMISSION-ID": transmission_id,
        "PAYPAL-TRANSMISSION-SIG": base64.b64encode(by.key.sign(message, padding.PKCS1v15(), hashes.SHA256())).decode(),
        "PAYPAL-TRANSMISSION-TIME": at,
    }


def _new_certificates(now_us: int) -> tuple[str, str, str]:
    """Root, leaf and the leaf's key, as PEM."""
    now = datetime.fromtimestamp(now_us // 1_000_000, UTC)
    root_key = ec.generate_private_key(ec.SECP256R1())
    root_name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "Sandbox Root")])
    key = rsa.generate_private_key(65537, 2048)
    authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(root_key.public_key())
    root = (
        _builder(root_name, root_name, root_key, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(root_key.public_key()), critical=False)
        .sign(root_key, hashes.SHA256())
    )
    leaf = (
        _builder(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, SIGNER)]), root_name, key, now)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(certificates=False), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(SIGNER)]), critical=False)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(authority, critical=False)
        .sign(root_key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    pem = serialization.Encoding.PEM
    return root.public_bytes(pem).decode(), leaf.public_bytes(pem).decode(), private.decode()


def _builder(subject: x509.Name, issuer: x509.Name, key: _Key, now: datetime) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + _VALID)
    )


def _key_usage(*, certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not certificates,
        key_cert_sign=certificates,
        crl_sign=certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
