"""Where an exchange may go, and who hears that it may not."""

import asyncio

import httpx
import pytest

from gateways.egress import Denial, Egress, EgressDenied, base_url, current, declared
from tests import loopback

REFUSED = {
    "another scheme": "ftp://a",
    "relative": "/v1",
    "credentials": "http://user:pw@a",
    "query": "https://a?pw=1",
    "fragment": "https://a#pw",
    "no port": "http://a:pw",
    "no host": "https://",
    "trailing dot": "https://api.example.com./pw",
    "ideographic full stop": "https://api\u3002example.com/pw",
    "fullwidth full stop": "https://api\uff0eexample.com/pw",
    "halfwidth full stop": "https://api\uff61example.com/pw",
    "Cyrillic": "https://\u0430pi.example.com/pw",
    "umlaut": "https://b\u00fccher.example/pw",
    "fullwidth": "https://\uff41pi.example.com/pw",
    "underscore": "https://a_b.example/pw",
    "percent": "https://api%2eexample.com/pw",
    "short": "http://127.1/pw",
    "decimal": "http://2130706433/pw",
    "hexadecimal": "http://0x7f000001/pw",
    "octal": "http://0177.0.0.1/pw",
    "hexadecimal part": "http://127.0.0.0x1/pw",
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_base_url_that_cannot_be_one_is_refused_without_being_repeated(case: str) -> None:
    with pytest.raises(ValueError, match="a base URL must") as caught:
        Egress({"payments": (REFUSED[case],)}, private=["payments"])
    assert "pw" not in str(caught.value)


PRIVATE_LITERALS = ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.0.1", "[::1]", "[fd12::1]"]
OTHER_LITERALS = [
    "8.8.8.8",
    "0.0.0.0",
    "169.254.169.254",
    "100.64.0.1",
    "224.0.0.1",
    "[::]",
    "[::ffff:127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "[2001:0:4136:e378:8000:63bf:80ff:fffe]",
    "[fe80::1]",
    "[ff02::1]",
    "[2606:4700:4700::1111]",
]


@pytest.mark.parametrize("host", PRIVATE_LITERALS)
def test_an_address_may_be_configured_on_a_private_network_that_is_allowed(host: str) -> None:
    url = f"http://{host}:8080"
    assert Egress({"payments": (url,)}, private=["payments"]).allows("payments", httpx.URL(url))
    for others in ([], ["orders"]):
        with pytest.raises(ValueError, match="payments: a base URL must have a name"):
            Egress({"payments": (url,)}, private=others)


@pytest.mark.parametrize("host", OTHER_LITERALS)
def test_no_other_address_can_be_configured(host: str) -> None:
    with pytest.raises(ValueError, match="payments: a base URL must have a name"):
        Egress({"payments": (f"http://{host}",)}, private=["payments"])


EGRESS = {
    "payments": ("https://api.example.com", "https://api-m.example.com/v1"),
    "orders": ("http://127.0.0.1:8080/prefix",),
}


def test_scheme_host_and_port_are_compared_exactly_and_by_system() -> None:
    egress = Egress(EGRESS, private=["orders"])
    allowed = {
        "payments": ["https://api.example.com/x", "https://api.example.com:443/", "https://API-M.example.com"],
        "orders": ["http://127.0.0.1:8080/y"],
    }
    denied = [
        "http://api.example.com",
        "https://api.example.com:8443",
        "https://api.example.com.evil.example",
        "https://evil.example/api.example.com",
        "https://xapi.example.com",
        "http://127.0.0.1",
        "http://localhost:8080",
        "http://127.1:8080",
        "http://[::ffff:127.0.0.1]:8080",
        "/relative",
    ]
    for system, urls in allowed.items():
        for each in urls:
            assert {name: egress.allows(name, httpx.URL(each)) for name in ("payments", "orders", "messages")} == {
                name: name == system for name in ("payments", "orders", "messages")
            }
    assert not any(egress.allows(system, httpx.URL(each)) for each in denied for system in EGRESS)


def test_a_place_that_systems_share_is_private_only_where_all_of_them_may_be_there() -> None:
    shared = {"payments": ("http://shared.example",), "orders": ("http://shared.example/orders",)}
    both = Egress(shared, private=["payments", "orders"])
    one = Egress(shared, private=["orders"])
    assert [_passed(each) for each in (both, one)] == [True, False]


def _passed(egress: Egress) -> bool:
    with egress.passage("orders", httpx.Request("GET", "http://shared.example")):
        passage = current()
    assert passage is not None
    return passage.private


def test_a_passage_ends_with_its_exchange() -> None:
    egress = Egress(EGRESS, private=["orders"])
    with egress.passage("payments", httpx.Request("GET", "https://api.example.com/x")):
        passage = current()
    assert passage is not None
    assert (passage.system, passage.host, passage.port) == ("payments", "api.example.com", 443)
    assert current() is None


REQUESTS = {
    "elsewhere": ("https://evil.example/x?q=secret", {}, Denial("payments", "evil.example", "origin_not_listed")),
    "another system's": ("http://127.0.0.1:8080/x", {}, Denial("payments", "127.0.0.1", "origin_not_listed")),
    "credentials": ("https://me:secret@api.example.com", {}, Denial("payments", "api.example.com", "url_not_plain")),
    "another host": (
        "https://api.example.com",
        {"Host": "secret.example"},
        Denial("payments", "api.example.com", "url_not_plain"),
    ),
    "trailing dot": ("https://api.example.com./", {}, Denial("payments", "api.example.com.", "url_not_plain")),
    "decimal": ("https://2130706433/", {}, Denial("payments", "2130706433", "url_not_plain")),
    "another script": (
        "https://\u0430pi.example.com",
        {},
        Denial("payments", "xn--pi-6kc.example.com", "origin_not_listed"),
    ),
    "long": (f"https://{'a.' * 200}a", {}, Denial("payments", ("a." * 200)[:253], "url_not_plain")),
    "odd": ("https://a(!)|b`c", {}, Denial("payments", "a(!)|b`c", "url_not_plain")),
}


@pytest.mark.parametrize("case", REQUESTS)
def test_whoever_wants_to_know_hears_of_a_denial(case: str) -> None:
    url, headers, denial = REQUESTS[case]
    heard: list[Denial] = []
    egress = Egress(EGRESS, private=["orders"], denied=heard.append)
    with pytest.raises(EgressDenied) as caught, egress.passage("payments", httpx.Request("GET", url, headers=headers)):
        pytest.fail("it was let out")
    assert heard == [denial] == [caught.value.denial]
    assert str(caught.value) == denial.because


async def test_a_tool_reaches_the_systems_that_it_declares_in_its_tasks_too() -> None:
    heard: list[Denial] = []
    egress = loopback.egress("http://127.0.0.1:8080", denied=heard.append)

    async def out(system: str) -> bool:
        try:
            with egress.passage(system, httpx.Request("GET", "http://127.0.0.1:8080/")):
                return True
        except EgressDenied:
            return False

    async def both() -> list[bool]:
        return list(await asyncio.gather(out("payments"), out("orders")))

    with declared(["orders"], "orders"):
        assert await both() == [False, True]
        with declared([], None):
            assert await both() == [False, False]
        assert await both() == [False, True]
    assert await both() == [True, True]
    assert {each.because for each in heard} == {"system_not_declared"}
    assert heard[0] == Denial("payments", "127.0.0.1", "system_not_declared")


def test_a_tool_only_reads_from_systems_that_its_effect_does_not_go_to() -> None:
    egress = loopback.egress("http://127.0.0.1:8080")

    def out(method: str, system: str) -> bool:
        try:
            with egress.passage(system, httpx.Request(method, "http://127.0.0.1:8080/")):
                return True
        except EgressDenied:
            return False

    with declared(["orders", "payments"], "payments"):
        assert (out("GET", "orders"), out("GET", "payments"), out("POST", "payments")) == (True, True, True)
        assert (out("POST", "orders"), out("PUT", "orders")) == (False, False)
    with declared(["orders"], None):
        assert (out("GET", "orders"), out("POST", "orders")) == (True, False)
    assert out("POST", "orders")


def test_a_name_in_punycode_is_taken_as_it_is_written() -> None:
    egress = Egress({"payments": ("https://xn--bcher-kva.example",)})
    assert egress.allows("payments", httpx.URL("https://xn--bcher-kva.example/x"))
    assert base_url("https://xn--bcher-kva.example").raw_host == b"xn--bcher-kva.example"
