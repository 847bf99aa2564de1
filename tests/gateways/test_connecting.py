"""Where connections really go, seen at the lowest level there is: a socket's `connect`."""

import asyncio
import datetime
import socket
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from ipaddress import ip_address
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from gateways import client as clients
from gateways.client import new_client
from gateways.connecting import Resolve, resolve
from gateways.egress import Denial, Egress, EgressDenied
from gateways.http import Answer, Answered, NotAnswered, Remote
from tests import loopback
from tests.diagnostics.remotes import Handler, free_port, read_request, response, serving
from tests.gateways.holding import held
from tests.gateways.test_addresses import addresses, may_be_reached

PUBLIC = "8.8.8.8"


class Names:
    """A resolver that answers with the next of `answers` each time, and keeps what it was asked."""

    def __init__(self, *answers: Sequence[str] | OSError) -> None:
        self.asked: list[tuple[str, int]] = []
        self._answers = list(answers)

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append((host, port))
        answer = self._answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return answer


class Connects:
    """Every address that a socket was to be connected to; each attempt is refused."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.to: list[str] = []
        patch.setattr(socket.socket, "connect", lambda own, address: self._refuse(address))
        patch.setattr(socket, "getaddrinfo", self._never)

    def _refuse(self, address: tuple[str, int]) -> None:
        self.to.append(address[0])
        raise ConnectionRefusedError

    def _never(self, *arguments: object, **options: object) -> None:
        pytest.fail("the system was asked for a name")


def remote(client: httpx.AsyncClient, base: str, egress: Egress) -> Remote:
    return Remote(client, egress, system="payments", base=base, credentials=held("sk_1"), deadline_seconds=5)


async def once(base: str, names: Resolve, egress: Egress) -> Answer:
    async with new_client(names) as client:
        return await remote(client, base, egress).exchange("GET", "/v1/refunds")


@pytest.fixture
async def stack() -> AsyncIterator[AsyncExitStack]:
    async with AsyncExitStack() as opened:
        yield opened


def keeping(requests: list[bytes]) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            requests.append(await read_request(reader))
            writer.write(response(b"{}"))

    return handle


async def test_a_name_is_resolved_once_for_a_connection_that_is_kept(stack: AsyncExitStack) -> None:
    requests: list[bytes] = []
    port = (await stack.enter_async_context(serving(keeping(requests)))).rpartition(":")[2]
    base, names = f"http://gateway.example:{port}", Names(["127.0.0.1"])
    client = await stack.enter_async_context(new_client(names.resolve))
    gateway = remote(client, base, loopback.egress(base))
    for _ in range(3):
        assert isinstance(await gateway.exchange("GET", "/v1/refunds"), Answered)
    assert names.asked == [("gateway.example", int(port))]
    assert [f"host: gateway.example:{port}".encode() in each.lower() for each in requests] == [True] * 3


async def test_an_address_is_not_looked_up(stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    base = await stack.enter_async_context(serving(keeping([])))

    def never(*arguments: object, **options: object) -> None:
        pytest.fail("the system was asked for a name")

    monkeypatch.setattr(socket, "getaddrinfo", never)
    names = Names()
    assert isinstance(await once(base, names.resolve, loopback.egress(base)), Answered)
    assert names.asked == []


async def test_a_name_that_is_public_first_and_then_of_this_machine_gets_nowhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connects, heard = Connects(monkeypatch), list[Denial]()
    names = Names([PUBLIC], ["127.0.0.1"])
    egress = Egress({"payments": ("https://gateway.example",)}, denied=heard.append)
    async with new_client(names.resolve) as client:
        gateway = remote(client, "https://gateway.example", egress)
        first = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
        second = await gateway.exchange("POST", "/v1/refunds", form={"amount": "1"})
    # What was checked is what was connected to: there was no second look-up in between.
    assert connects.to == [PUBLIC]
    assert len(names.asked) == 2
    assert [each.exchange.problem for each in (first, second)] == ["connect_failed", "egress_denied"]
    assert isinstance(second, NotAnswered)
    assert second.nothing_sent
    assert heard == [Denial("payments", "gateway.example", "address_not_allowed")]


ANSWERS = {
    "loopback": ["127.0.0.1"],
    "one bad of several": [PUBLIC, "2606:4700:4700::1111", "10.0.0.1"],
    "metadata": ["169.254.169.254"],
    "mapped": ["::ffff:127.0.0.1"],
    "mapped public": ["::ffff:8.8.8.8"],
    "NAT64": ["64:ff9b::a00:1"],
    "with a zone": ["fe80::1%eth0"],
    "unspecified": ["0.0.0.0"],
    "no address": ["gateway.example"],
    "short": ["127.1"],
}


@pytest.mark.parametrize("case", ANSWERS)
async def test_no_address_of_a_name_with_a_bad_one_is_connected_to(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    connects, base = Connects(monkeypatch), "https://gateway.example"
    answer = await once(base, Names(ANSWERS[case]).resolve, Egress({"payments": (base,)}))
    assert (answer.exchange.problem, answer.exchange.reached) == ("egress_denied", "nothing_sent")
    assert connects.to == []


async def test_every_address_is_tried_until_one_answers(stack: AsyncExitStack) -> None:
    port = (await stack.enter_async_context(serving(keeping([])))).rpartition(":")[2]
    base = f"http://gateway.example:{port}"
    names = Names(["127.0.0.2", "127.0.0.3", "127.0.0.1"])
    assert isinstance(await once(base, names.resolve, loopback.egress(base)), Answered)


async def test_an_address_that_never_answers_leaves_time_for_the_next(
    stack: AsyncExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = (await stack.enter_async_context(serving(keeping([])))).rpartition(":")[2]
    base, connect = f"http://gateway.example:{port}", asyncio.get_running_loop().sock_connect

    async def hang(sock: socket.socket, address: tuple[str, int]) -> None:
        if address[0] == "127.0.0.2":
            await asyncio.Event().wait()
        await connect(sock, address)

    monkeypatch.setattr(asyncio.get_running_loop(), "sock_connect", hang)
    async with new_client(Names(["127.0.0.2", "127.0.0.1"]).resolve) as client:
        gateway = Remote(
            client,
            loopback.egress(base),
            system="payments",
            base=base,
            credentials=held("x"),
            authorize=str,
            deadline_seconds=1,
        )
        assert isinstance(await gateway.exchange("GET", "/v1/refunds"), Answered)


@pytest.mark.parametrize("answer", [[], socket.gaierror()], ids=["no address", "unknown"])
async def test_a_name_without_an_address_is_a_failed_connection(answer: Sequence[str] | OSError) -> None:
    base = "https://gateway.example"
    told = await once(base, Names(answer).resolve, Egress({"payments": (base,)}))
    assert (told.exchange.problem, told.exchange.reached) == ("connect_failed", "nothing_sent")


async def test_a_resolver_that_hangs_is_a_time_out() -> None:
    async def hang(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    async with new_client(hang) as client:
        base = "https://gateway.example"
        gateway = Remote(
            client,
            Egress({"payments": (base,)}),
            system="payments",
            base=base,
            credentials=held("x"),
            authorize=str,
            deadline_seconds=0.2,
        )
        told = await gateway.exchange("GET", "/v1/refunds")
    assert (told.exchange.problem, told.exchange.reached) == ("timeout", "nothing_sent")


async def test_the_client_is_of_no_use_outside_of_a_passage(stack: AsyncExitStack) -> None:
    requests: list[bytes] = []
    base = await stack.enter_async_context(serving(keeping(requests)))
    client = await stack.enter_async_context(new_client())
    with pytest.raises(EgressDenied):
        await client.get(base)
    elsewhere = f"http://127.0.0.1:{free_port()}"
    with (
        pytest.raises(EgressDenied) as caught,
        loopback.egress(elsewhere).passage("payments", httpx.Request("GET", elsewhere)),
    ):
        await client.get(base)
    assert caught.value.denial == Denial("payments", "127.0.0.1", "origin_not_listed")
    assert requests == []


async def test_the_system_resolves_names() -> None:
    assert set(await resolve("localhost", 80)) <= {"127.0.0.1", "::1"}


# The port is what a URL may have after the host; the host is whatever a person or an attacker could think of.
hosts = st.one_of(
    st.sampled_from(["gateway.example", "localhost", "gateway.example.", "127.1", "2130706433", "0x7f000001"]),
    addresses.map(lambda address: f"[{address}]" if address.version == 6 else str(address)),
    addresses.map(lambda address: str(int(address))),
    addresses.map(lambda address: hex(int(address))),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=20),
    st.from_regex(r"[0-9a-fx.:\[\]%-]{1,30}", fullmatch=True),
)


@settings(deadline=None, max_examples=150)
@given(hosts, st.lists(addresses, max_size=4), st.booleans())
def test_no_socket_is_ever_connected_to_an_address_that_its_system_may_not_have(
    host: str, found: list[object], private: bool
) -> None:
    answers = [str(each) for each in found]
    base = f"http://{host}:8080"
    try:
        egress = Egress({"payments": (base,)}, private=["payments"] if private else [])
    except ValueError:
        return
    with pytest.MonkeyPatch.context() as patch:
        connects = Connects(patch)
        answer = asyncio.run(once(base, Names(answers).resolve, egress))
    assert all(may_be_reached(ip_address(each), private=private) for each in connects.to)
    assert set(connects.to) <= {*answers, host.strip("[]")}
    assert answer.exchange.problem in ("egress_denied", "connect_failed")


def certified(folder: Path, name: str) -> tuple[ssl.SSLContext, Path]:
    """TLS for a server of this name, and the file of the certificate that vouches for it: its own."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    own, trusted = folder / "server.pem", folder / "trusted.pem"
    trusted.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    own.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + trusted.read_bytes()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own)
    return context, trusted


@pytest.mark.parametrize(("certified_name", "answered"), [("gateway.example", True), ("other.example", False)])
async def test_tls_and_host_keep_the_name_of_a_pinned_address(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certified_name: str, answered: bool
) -> None:
    names, requests = list[str](), list[bytes]()
    tls, trusted = certified(tmp_path, certified_name)
    tls.sni_callback = lambda connection, name, context: names.append(name)
    port = (await stack.enter_async_context(serving(keeping(requests), tls))).rpartition(":")[2]
    monkeypatch.setattr(clients, "_trusted_authorities", lambda: ssl.create_default_context(cafile=trusted))
    base = f"https://gateway.example:{port}"
    told = await once(base, Names(["127.0.0.1"]).resolve, loopback.egress(base))
    assert names == ["gateway.example"]
    assert isinstance(told, Answered) == answered
    assert [f"host: gateway.example:{port}".encode() in each.lower() for each in requests] == [True] * answered
    assert told.exchange.problem == (None if answered else "connect_failed")


async def test_the_environment_has_no_say(
    stack: AsyncExitStack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proxied, requests = list[bytes](), list[bytes]()
    proxy = await stack.enter_async_context(serving(keeping(proxied)))
    tls, trusted = certified(tmp_path, "gateway.example")
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, proxy)
    monkeypatch.setenv("NO_PROXY", "nobody.example")
    monkeypatch.setenv("SSL_CERT_FILE", str(trusted))
    monkeypatch.setenv("SSL_CERT_DIR", str(tmp_path))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NETRC", str(tmp_path / ".netrc"))
    (tmp_path / ".netrc").write_text("default login someone password else\n")
    clients._trusted_authorities.cache_clear()
    stack.callback(clients._trusted_authorities.cache_clear)

    plain = (await stack.enter_async_context(serving(keeping(requests)))).rpartition(":")[2]
    base = f"http://gateway.example:{plain}"
    assert isinstance(await once(base, Names(["127.0.0.1"]).resolve, loopback.egress(base)), Answered)
    client = await stack.enter_async_context(new_client(Names(["127.0.0.1"]).resolve))
    request = client.build_request("GET", f"{base}/bare")
    with loopback.egress(base).passage("payments", request):
        await client.send(request)
    assert b"authorization: bearer sk_1" in requests[0].lower()
    assert b"authorization" not in requests[1].lower()

    port = (await stack.enter_async_context(serving(keeping(requests), tls))).rpartition(":")[2]
    base = f"https://gateway.example:{port}"
    told = await once(base, Names(["127.0.0.1"]).resolve, loopback.egress(base))
    assert (told.exchange.problem, told.exchange.reached) == ("connect_failed", "connected")
    assert clients._trusted_authorities().keylog_filename is None
    assert (len(requests), proxied) == (2, [])
