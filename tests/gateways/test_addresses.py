"""Which hosts may be named, and which addresses connected to."""

from ipaddress import IPv4Address, IPv4Network, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateways.addresses import Address, is_plain_name, is_private, is_public, literal

# From IANA's registries of special-purpose addresses, written out: the code under test derives them.
SPECIAL_V4 = [
    IPv4Network(each)
    for each in [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.0.0.0/24",
        "192.0.2.0/24",
        "192.88.99.0/24",
        "192.168.0.0/16",
        "198.18.0.0/15",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
]
SPECIAL_V6 = [
    IPv6Network(each)
    for each in [
        "::/128",
        "::1/128",
        "::/96",
        "::ffff:0:0/96",
        "::ffff:0:0:0/96",
        "64:ff9b::/96",
        "64:ff9b:1::/48",
        "100::/64",
        "2001::/23",
        "2001:db8::/32",
        "2002::/16",
        "3fff::/20",
        "5f00::/16",
        "fc00::/7",
        "fe80::/10",
        "fec0::/10",
        "ff00::/8",
    ]
]
MAY_BE_PRIVATE = [IPv4Network(each) for each in ("127.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16")]
MAY_BE_PRIVATE_V6 = [IPv6Network("::1/128"), IPv6Network("fc00::/7")]
METADATA_V6 = [IPv6Network(each) for each in ("fd00:ec2::/32", "fd20:ce::/32", "fd00:c1::/32")]

addresses = st.one_of(
    st.ip_addresses(),
    st.sampled_from([*SPECIAL_V4, *SPECIAL_V6, *METADATA_V6]).flatmap(lambda network: st.ip_addresses(network=network)),
)


def may_be_reached(address: Address, *, private: bool) -> bool:
    """Whether a system may have it, said without the code under test."""
    if isinstance(address, IPv4Address):
        special, allowed, metadata = SPECIAL_V4, MAY_BE_PRIVATE, list[IPv6Network]()
    else:
        special, allowed, metadata = SPECIAL_V6, MAY_BE_PRIVATE_V6, METADATA_V6
    if any(address in each for each in special):
        return private and any(address in each for each in allowed) and not any(address in each for each in metadata)
    return isinstance(address, IPv4Address) or address in IPv6Network("2000::/3")


@given(addresses)
def test_an_address_is_public_private_or_nobodys(address: Address) -> None:
    assert is_public(address) == may_be_reached(address, private=False)
    assert (is_public(address) or is_private(address)) == may_be_reached(address, private=True)


PUBLIC = ["8.8.8.8", "1.1.1.1", "172.32.0.1", "100.128.0.1", "2606:4700:4700::1111", "2a00:1450:4001:80b::200e"]
PRIVATE = ["127.0.0.1", "127.8.9.1", "10.0.0.1", "172.31.255.255", "192.168.1.1", "::1", "fd12:3456::1"]
NOBODYS = {
    "unspecified": "0.0.0.0",
    "this network": "0.1.2.3",
    "broadcast": "255.255.255.255",
    "reserved": "240.0.0.1",
    "multicast": "224.0.0.1",
    "global multicast": "233.252.0.1",
    "link-local": "169.254.1.1",
    "metadata": "169.254.169.254",
    "carrier-grade NAT": "100.64.0.1",
    "metadata behind carrier-grade NAT": "100.100.100.200",
    "benchmarking": "198.18.0.1",
    "documentation": "203.0.113.1",
    "protocol assignments": "192.0.0.9",
    "6to4 relay": "192.88.99.1",
    "unspecified v6": "::",
    "mapped loopback": "::ffff:127.0.0.1",
    "mapped private": "::ffff:10.0.0.1",
    "mapped public": "::ffff:8.8.8.8",
    "compatible loopback": "::127.0.0.1",
    "translated": "::ffff:0:127.0.0.1",
    "NAT64 loopback": "64:ff9b::127.0.0.1",
    "NAT64 public": "64:ff9b::8.8.8.8",
    "NAT64 of one's own": "64:ff9b:1::7f00:1",
    "6to4 loopback": "2002:7f00:1::",
    "6to4 public": "2002:808:808::",
    "Teredo": "2001:0:4136:e378:8000:63bf:80ff:fffe",
    "link-local v6": "fe80::1",
    "link-local v6 with a zone": "fe80::1%eth0",
    "loopback with a zone": "::1%lo",
    "public with a zone": "2606:4700:4700::1111%eth0",
    "site-local": "fec0::1",
    "multicast v6": "ff02::1",
    "global multicast v6": "ff0e::1",
    "documentation v6": "2001:db8::1",
    "newer documentation v6": "3fff::1",
    "discard": "100::1",
    "segment routing": "5f00::1",
    "metadata v6": "fd00:ec2::254",
}


@pytest.mark.parametrize("text", PUBLIC)
def test_public_addresses(text: str) -> None:
    assert (is_public(ip_address(text)), is_private(ip_address(text))) == (True, False)


@pytest.mark.parametrize("text", PRIVATE)
def test_private_addresses(text: str) -> None:
    assert (is_public(ip_address(text)), is_private(ip_address(text))) == (False, True)


@pytest.mark.parametrize("case", NOBODYS)
def test_addresses_that_no_system_may_have(case: str) -> None:
    address = ip_address(NOBODYS[case])
    assert (is_public(address), is_private(address)) == (False, False)


NAMES = ["api.example.com", "localhost", "a", "1.example", "xn--bcher-kva.example", "a-b.c--d.e1", "x" * 63]
NO_NAMES = {
    "empty": "",
    "trailing dot": "api.example.com.",
    "leading dot": ".example.com",
    "empty label": "api..example.com",
    "upper case": "API.example.com",
    "underscore": "a_b.example",
    "leading hyphen": "-a.example",
    "trailing hyphen": "a-.example",
    "long label": "x" * 64,
    "long": ".".join(["x" * 49] * 6),
    "percent": "127.0.0.1%2f",
    "line end": "api.example.com\n",
    "ideographic full stop": "api\u3002example\u3002com",
    "fullwidth full stop": "api\uff0eexample\uff0ecom",
    "halfwidth full stop": "api\uff61example\uff61com",
    "Cyrillic": "\u0430pi.example.com",
    "fullwidth digits": "\uff11\uff12\uff17.0.0.1",
    "Arabic digits": "\u0661.\u0662.\u0663.\u0664",
    "circled": "\u24d0pi.example.com",
    "soft hyphen": "a\u00adpi.example.com",
    "standard": "127.0.0.1",
    "short": "127.1",
    "shorter": "127",
    "decimal": "2130706433",
    "hexadecimal": "0x7f000001",
    "hexadecimal parts": "0x7f.0.0.0x1",
    "a bare hexadecimal prefix": "127.0.0.0x",
    "octal": "0177.0.0.1",
    "octal whole": "017700000001",
    "too large": "999.999.999.999",
    "IPv6": "::1",
    "bracketed": "[::1]",
}


@pytest.mark.parametrize("name", NAMES)
def test_names_are_plain(name: str) -> None:
    assert is_plain_name(name)


@pytest.mark.parametrize("case", NO_NAMES)
def test_what_is_no_plain_name(case: str) -> None:
    assert not is_plain_name(NO_NAMES[case])


@pytest.mark.parametrize("text", ["127.1", "0177.0.0.1", "0x7f000001", "2130706433", "[::1]", "\uff11.1.1.1", "", "a"])
def test_only_the_standard_form_is_a_literal(text: str) -> None:
    assert literal(text) is None
