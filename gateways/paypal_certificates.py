"""The certificates that PayPal signs its webhooks by: fetched from PayPal alone, believed only through their chain."""

import asyncio
import re
import warnings
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path

import httpx
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.utils import CryptographyDeprecationWarning
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from gateways.client import new_client
from gateways.egress import Egress, EgressDenied, base_url
from gateways.webhooks import NotGenuineError

DEADLINE_SECONDS = 10.0
MAX_PEM_BYTES = 64 * 1024
_KEPT = 16
_SYSTEM = "payments"
_PATH = re.compile(r"/v1/notifications/certs/[0-9A-Za-z_-]{1,100}")


@dataclass(frozen=True, slots=True)
class Signer:
    """Whose certificates are believed: served at one of `bases`, for the DNS name `name`, under `authorities`."""

    bases: tuple[str, ...]
    name: str
    authorities: tuple[x509.Certificate, ...]

    @classmethod
    def of(cls, api_base: str, authorities: Path | None = None) -> "Signer":
        """PayPal's own for this base URL of its API. It serves them from `api.`, where the API itself is `api-m.`.

        `authorities` is a PEM file that takes the place of the usual certificate authorities. Raises ValueError.
        """
        host = base_url(api_base).host
        realm = "sandbox.paypal.com" if host.endswith(".sandbox.paypal.com") else "paypal.com"
        bases = (api_base,) if host != f"api-m.{realm}" else (api_base, f"https://api.{realm}")
        trusted = _usual_authorities() if authorities is None else read_authorities(authorities)
        return cls(bases, f"messageverificationcerts.{realm}", trusted)


class Certificates:
    """Keeps the public keys of certificates that have been believed, as long as those are valid."""

    def __init__(self, signer: Signer, *, private: Iterable[str] = ()) -> None:
        """`private` has `payments` where PayPal's place may be taken by something on a private network."""
        self._signer = signer
        # Of its own: what anyone may send a webhook with may not lead to any other system that is allowed.
        self._egress = Egress({_SYSTEM: signer.bases}, private=private)
        self._store = Store(list(signer.authorities))
        self._kept: OrderedDict[str, tuple[datetime, rsa.RSAPublicKey]] = OrderedDict()
        # One at a time, since anyone can send names of certificates that are not there.
        self._fetching = asyncio.Lock()

    async def key(self, url: str, now: datetime) -> rsa.RSAPublicKey:
        """The key of the certificate at `url`. Raises NotGenuineError."""
        parsed = self._parsed(url)
        if (kept := self._kept_key(url, now)) is not None:
            return kept
        async with self._fetching:
            if (kept := self._kept_key(url, now)) is not None:
                return kept
            believed = self._believed(await self._fetched(parsed), now)
            self._kept[url] = believed
            while len(self._kept) > _KEPT:
                self._kept.popitem(last=False)
            return believed[1]

    def _kept_key(self, url: str, now: datetime) -> rsa.RSAPublicKey | None:
        until, key = self._kept.get(url, (now, None))
        return key if now < until else None

    def _parsed(self, url: str) -> httpx.URL:
        try:
            parsed = httpx.URL(url)
        except httpx.InvalidURL:
            raise NotGenuineError("certificate_elsewhere") from None
        plain = not (parsed.userinfo or parsed.query or parsed.fragment)
        if not plain or _PATH.fullmatch(parsed.path) is None or not self._egress.allows(_SYSTEM, parsed):
            raise NotGenuineError("certificate_elsewhere")
        return parsed

    async def _fetched(self, url: httpx.URL) -> bytes:
        headers = {"Accept-Encoding": "identity", "User-Agent": "counterseal"}
        content = bytearray()
        try:
            # Certificates last for months, so no client is kept for them.
            async with asyncio.timeout(DEADLINE_SECONDS), new_client() as client:
                request = client.build_request("GET", url, headers=headers)
                with self._egress.passage(_SYSTEM, request):
                    response = await client.send(request, stream=True)
                async with aclosing(response):
                    if response.status_code != 200:
                        raise NotGenuineError("certificate_unavailable")
                    async for chunk in response.aiter_raw():
                        content += chunk
                        if len(content) > MAX_PEM_BYTES:
                            raise NotGenuineError("certificate_unavailable")
        except (TimeoutError, EgressDenied, httpx.HTTPError):
            raise NotGenuineError("certificate_unavailable") from None
        return bytes(content)

    def _believed(self, pem: bytes, now: datetime) -> tuple[datetime, rsa.RSAPublicKey]:
        """Until when the first certificate is valid, and its key; the others may lead from it to an authority."""
        try:
            leaf, *others = x509.load_pem_x509_certificates(pem)
            policy = PolicyBuilder().store(self._store).time(now)
            chain = policy.build_server_verifier(x509.DNSName(self._signer.name)).verify(leaf, others)
            key = leaf.public_key()
        except (ValueError, VerificationError):
            raise NotGenuineError("certificate_untrusted") from None
        if not isinstance(key, rsa.RSAPublicKey):
            raise NotGenuineError("certificate_untrusted")
        return min(each.not_valid_after_utc for each in chain), key


def read_authorities(file: Path) -> tuple[x509.Certificate, ...]:
    """The certificates of a PEM file. Raises ValueError, which does not say what is in it."""
    try:
        return tuple(x509.load_pem_x509_certificates(file.read_bytes()))
    except (OSError, ValueError):
        raise ValueError("the authorities' file cannot be read as PEM certificates") from None


@cache
def _usual_authorities() -> tuple[x509.Certificate, ...]:
    """Those that connections are checked by."""
    context = httpx.create_ssl_context(trust_env=False)
    return tuple(filter(None, map(_well_formed, context.get_ca_certs(binary_form=True))))


def _well_formed(encoded: bytes) -> x509.Certificate | None:
    """None for what is only tolerated, e.g. a serial number that RFC 5280 forbids."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", CryptographyDeprecationWarning)
        try:
            return x509.load_der_x509_certificate(encoded)
        except (CryptographyDeprecationWarning, ValueError):
            return None
