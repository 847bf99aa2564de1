"""Which webhooks are PayPal's, and what they tell; against the simulated PayPal, which signs as PayPal does."""

import asyncio
import base64
import json
import zlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from gateways import paypal_certificates
from gateways.paypal_certificates import Certificates, Signer, read_authorities
from gateways.paypal_webhooks import AHEAD, TOLERANCE, PayPalWebhooks
from gateways.webhooks import NotGenuineError, Notice
from tests.gateways.conftest import Started
from tests.gateways.peers.paypal import PayPalPeer

WEBHOOK_ID = "5GP028458E2496506"
NAME = "messageverificationcerts.paypal.example"

Serve = Callable[[Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]], Awaitable[str]]


class World:
    """The simulated PayPal, and the webhooks that it signs."""

    def __init__(self, peer: PayPalPeer, root: str) -> None:
        self.peer = peer
        self.root = root
        self.authorities = tuple(x509.load_pem_x509_certificates(root.encode()))

    def reader(self, **changes: Any) -> PayPalWebhooks:
        given: dict[str, Any] = {"bases": (self.peer.url,), "name": NAME, "authorities": self.authorities}
        return PayPalWebhooks(Certificates(Signer(**given | changes), private=("payments",)), WEBHOOK_ID)

    async def webhook(
        self, event_type: str, subject: str, webhook_id: str = WEBHOOK_ID
    ) -> tuple[dict[str, str], bytes]:
        """Headers, with names in lower case, and the body."""
        wanted = {"event_type": event_type, "subject": subject, "webhook_id": webhook_id}
        answer = await self.peer.client.post(f"{self.peer.url}/_webhooks", json=wanted)
        answer.raise_for_status()
        made = answer.json()
        return {name.lower(): value for name, value in made["headers"].items()}, made["body"].encode()

    async def refunded(self) -> tuple[str, str]:
        """A capture and a refund of it."""
        capture_id = await self.peer.payment()
        answer = await self.peer.client.post(
            f"{self.peer.url}/_refunds", json={"payment_id": capture_id, "amount": "5.00"}
        )
        return capture_id, answer.json()["id"]


@pytest.fixture
async def world(started: Started, outside: httpx.AsyncClient) -> World:
    peer = PayPalPeer(started(PayPalPeer), outside)
    return World(peer, (await outside.get(f"{peer.url}/_root")).text)


def now() -> datetime:
    return datetime.now(UTC)


async def refusal(reader: PayPalWebhooks, headers: dict[str, str], body: bytes, at: datetime | None = None) -> str:
    with pytest.raises(NotGenuineError) as caught:
        await reader.read(headers, body, at or now())
    (word,) = caught.value.args
    return word


@pytest.mark.parametrize(
    "event_type",
    ["PAYMENT.CAPTURE.REFUNDED", "PAYMENT.CAPTURE.REVERSED", "PAYMENT.REFUND.PENDING", "PAYMENT.REFUND.FAILED"],
)
async def test_a_refund_is_named(world: World, event_type: str) -> None:
    capture_id, refund_id = await world.refunded()
    headers, body = await world.webhook(event_type, refund_id)
    assert await world.reader().read(headers, body, now()) == Notice(
        event_id=json.loads(body)["id"], refund_id=refund_id, payment_id=capture_id
    )


async def test_our_operation_is_named(world: World) -> None:
    capture_id, _ = await world.refunded()
    token = await world.peer.client.post(
        f"{world.peer.url}/v1/oauth2/token",
        auth=("client_of_the_tests", "secret_of_the_tests"),
        data={"grant_type": "client_credentials"},
    )
    made = await world.peer.client.post(
        f"{world.peer.url}/v2/payments/captures/{capture_id}/refund",
        headers={"Authorization": f"Bearer {token.json()['access_token']}"},
        json={"custom_id": "op_1"},
    )
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", made.json()["id"])
    notice = await world.reader().read(headers, body, now())
    assert notice is not None
    assert (notice.operation_id, notice.payment_id) == ("op_1", capture_id)


@pytest.mark.parametrize("what", ["CREATED", "UPDATED", "RESOLVED"])
async def test_a_disputes_payment_is_named(world: World, what: str) -> None:
    capture_id = await world.peer.disputed_payment()
    headers, body = await world.webhook(f"CUSTOMER.DISPUTE.{what}", capture_id)
    assert await world.reader().read(headers, body, now()) == Notice(
        event_id=json.loads(body)["id"], payment_id=capture_id
    )


async def test_another_event_is_genuine_and_about_nothing(world: World) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.AUTHORIZATION.VOIDED", refund_id)
    assert await world.reader().read(headers, body, now()) is None


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("paypal-transmission-sig", None, "signature_missing"),
        ("paypal-transmission-id", None, "signature_missing"),
        ("paypal-transmission-time", None, "signature_missing"),
        ("paypal-cert-url", None, "signature_missing"),
        ("paypal-auth-algo", None, "signature_unreadable"),
        ("paypal-auth-algo", "SHA1withRSA", "signature_unreadable"),
        ("paypal-transmission-sig", "not base64!", "signature_unreadable"),
        ("paypal-transmission-sig", "AAAA", "signature_wrong"),
        ("paypal-transmission-id", "another", "signature_wrong"),
        ("paypal-transmission-id", "a|b", "signature_unreadable"),
        ("paypal-transmission-time", "yesterday", "signature_unreadable"),
        ("paypal-transmission-time", "2026-11-30T12:00:00", "signature_unreadable"),
    ],
)
async def test_a_changed_header_is_not_genuine(world: World, name: str, value: str | None, said: str) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    changed = {key: given for key, given in headers.items() if key != name}
    assert await refusal(world.reader(), changed if value is None else changed | {name: value}, body) == said


async def test_a_changed_body_or_another_webhook_is_not_genuine(world: World) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    assert await refusal(world.reader(), headers, body.replace(b"FAILED", b"failed")) == "signature_wrong"
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id, webhook_id="ANOTHER")
    assert await refusal(world.reader(), headers, body) == "signature_wrong"


async def test_an_old_transmission_is_refused_and_a_repeated_one_within_three_days_is_not(world: World) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    at, moment = datetime.fromisoformat(headers["paypal-transmission-time"]), timedelta(seconds=1)
    reader = world.reader()
    assert await reader.read(headers, body, at + TOLERANCE) is not None
    assert await reader.read(headers, body, at - AHEAD) is not None
    assert await refusal(reader, headers, body, at + TOLERANCE + moment) == "signature_too_old"
    assert await refusal(reader, headers, body, at - AHEAD - moment) == "signature_too_new"


@pytest.mark.parametrize(
    "url",
    [
        "https://certs.example.com/v1/notifications/certs/CERT-1",
        "{base}@elsewhere.example/v1/notifications/certs/CERT-1",
        "{base}.elsewhere.example/v1/notifications/certs/CERT-1",
        "{base}/v1/notifications/certs/CERT-1?x=1",
        "{base}/v1/notifications/certs/../../../_root",
        "{base}/_root",
        "https{rest}/v1/notifications/certs/CERT-1",
        "file:///etc/passwd",
        "not a url",
    ],
)
async def test_a_certificate_is_fetched_from_nowhere_else(world: World, url: str) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    base = world.peer.url
    there = url.format(base=base, rest=base.removeprefix("http"))
    assert await refusal(world.reader(), headers | {"paypal-cert-url": there}, body) == "certificate_elsewhere"


async def test_only_a_certificate_with_the_name_and_the_chain_is_believed(world: World) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    assert await refusal(world.reader(name="other.paypal.example"), headers, body) == "certificate_untrusted"
    usual = Signer.of("https://api-m.paypal.com").authorities
    assert len(usual) > 20
    assert await refusal(world.reader(authorities=usual), headers, body) == "certificate_untrusted"
    missing = headers | {"paypal-cert-url": f"{world.peer.url}/v1/notifications/certs/CERT-missing"}
    assert await refusal(world.reader(), missing, body) == "certificate_unavailable"


async def test_a_certificate_that_has_expired_is_not_believed(world: World) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    reader = world.reader()
    assert await reader.read(headers, body, now()) is not None
    years = now() + timedelta(days=800)
    late = headers | {"paypal-transmission-time": years.isoformat()}
    assert await refusal(reader, late, body, years) == "certificate_untrusted"


async def test_a_certificate_is_fetched_once(world: World, serve: Serve) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)
    pem = (await world.peer.client.get(headers["paypal-cert-url"])).content
    fetched: list[bytes] = []

    async def certificate(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fetched.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(pem) + pem)
        await writer.drain()

    base = await serve(certificate)
    reader = world.reader(bases=(base,))
    there = headers | {"paypal-cert-url": f"{base}/v1/notifications/certs/CERT-1"}
    for notice in await asyncio.gather(*(reader.read(there, body, now()) for _ in range(5))):
        assert notice is not None
    assert len(fetched) == 1


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello", "certificate_untrusted"),
        (b"HTTP/1.1 302 Found\r\nLocation: {other}\r\nContent-Length: 0\r\n\r\n", "certificate_unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n\r\n" + b"x" * 99_999, "certificate_unavailable"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n", "certificate_unavailable"),
        (b"", "certificate_unavailable"),
    ],
)
async def test_what_is_no_certificate_is_not_believed(world: World, serve: Serve, answer: bytes, said: str) -> None:
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer.replace(b"{other}", headers["paypal-cert-url"].encode()))
        await writer.drain()

    base = await serve(handle)
    there = headers | {"paypal-cert-url": f"{base}/v1/notifications/certs/CERT-1"}
    assert await refusal(world.reader(bases=(base,)), there, body) == said


async def test_a_certificate_that_never_comes_ends_the_wait(
    world: World, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paypal_certificates, "DEADLINE_SECONDS", 0.1)
    _, refund_id = await world.refunded()
    headers, body = await world.webhook("PAYMENT.REFUND.FAILED", refund_id)

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        await reader.read()

    base = await serve(drip)
    there = headers | {"paypal-cert-url": f"{base}/v1/notifications/certs/CERT-1"}
    assert await refusal(world.reader(bases=(base,)), there, body) == "certificate_unavailable"


class _Signed:
    """Certificates whose only key is the test's own."""

    def __init__(self) -> None:
        self.private = rsa.generate_private_key(65537, 2048)

    async def key(self, url: str, at: datetime) -> rsa.RSAPublicKey:
        return self.private.public_key()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"not json", "unreadable"),
        (b'{"id":"WH-1","id":"WH-2","event_type":"PAYMENT.REFUND.FAILED"}', "unreadable"),
        (b'{"id":"WH-1","event_type":"PAYMENT.REFUND.FAILED","resource":{}}', "unreadable"),
        (
            b'{"id":"WH-1","event_type":"CUSTOMER.DISPUTE.CREATED","resource":{"disputed_transactions":[]}}',
            "unreadable",
        ),
        (b'{"id":"WH-1","event_type":"PAYMENT.SALE.COMPLETED","resource":{}}', None),
        (b'{"event_type":"PAYMENT.REFUND.FAILED"}', None),
        (
            b'{"id":"WH-1","event_type":"PAYMENT.CAPTURE.REVERSED","resource_type":"capture","resource":{"id":"CAP1"}}',
            Notice(event_id="WH-1", payment_id="CAP1"),
        ),
    ],
)
async def test_what_a_genuine_body_does_not_say(body: bytes, said: Any) -> None:
    by = _Signed()
    at = now().isoformat()
    message = f"t1|{at}|{WEBHOOK_ID}|{zlib.crc32(body)}".encode()
    headers = {
        "paypal-auth-algo": "SHA256withRSA",
        "paypal-cert-url": "https://api.paypal.com/v1/notifications/certs/CERT-1",
        "paypal-transmission-id": "t1",
        "paypal-transmission-sig": base64.b64encode(
            by.private.sign(message, padding.PKCS1v15(), hashes.SHA256())
        ).decode(),
        "paypal-transmission-time": at,
    }
    reader = PayPalWebhooks(by, WEBHOOK_ID)  # pyright: ignore[reportArgumentType]
    if isinstance(said, str):
        assert await refusal(reader, headers, body) == said
    else:
        assert await reader.read(headers, body, now()) == said


@pytest.mark.parametrize(
    ("base", "bases", "name"),
    [
        ("https://api-m.paypal.com", ("https://api-m.paypal.com", "https://api.paypal.com"), "paypal.com"),
        (
            "https://api-m.sandbox.paypal.com",
            ("https://api-m.sandbox.paypal.com", "https://api.sandbox.paypal.com"),
            "sandbox.paypal.com",
        ),
        ("https://gateway.example.com/paypal", ("https://gateway.example.com/paypal",), "paypal.com"),
    ],
)
def test_paypals_own_certificates_are_at_its_api(base: str, bases: tuple[str, ...], name: str) -> None:
    signer = Signer.of(base)
    assert (signer.bases, signer.name) == (bases, f"messageverificationcerts.{name}")


def test_authorities_come_from_a_file(world: World, tmp_path: Any) -> None:
    file = tmp_path / "authorities.pem"
    file.write_text(world.root)
    assert Signer.of("https://api-m.paypal.com", file).authorities == world.authorities
    key = rsa.generate_private_key(65537, 2048).private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(key)
    for wrong in (file, tmp_path / "missing.pem"):
        with pytest.raises(ValueError, match=r"^the authorities' file cannot be read as PEM certificates$"):
            read_authorities(wrong)


@pytest.mark.parametrize("webhook_id", ["", "a|b", "x" * 51, "é"])
def test_a_webhook_id_that_cannot_be_one_is_refused(webhook_id: str) -> None:
    with pytest.raises(ValueError, match=r"^a webhook id is letters and digits$"):
        PayPalWebhooks(Certificates(Signer.of("https://api-m.paypal.com")), webhook_id)
