"""Which hosts may be named and which IP addresses may be connected to. Pure."""

import re
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

Address = IPv4Address | IPv6Address

_LABEL = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
_NAME = re.compile(rf"{_LABEL}(\.{_LABEL})*")
# Resolvers read a name that ends so as an IPv4 address in decimal, octal, hexadecimal or with parts left out:
# `2130706433`, `0177.0.0.1`, `0x7f000001`, `127.1` (https://url.spec.whatwg.org/#ends-in-a-number-checker).
_NUMBER = re.compile("[0-9]+|0x[0-9a-f]*")

# All public IPv6 addresses lie in it (RFC 4291, IANA's registry of global unicast addresses). IPv4-mapped, NAT64,
# unique-local, link-local and multicast addresses do not, whatever is embedded in them.
_GLOBAL_UNICAST_V6 = ip_network("2000::/3")
# What `is_global` takes for public, in every Python or in older ones.
_SPECIAL = (
    ip_network("192.0.0.0/24"),  # protocol assignments, RFC 6890
    ip_network("192.88.99.0/24"),  # 6to4 relays, RFC 7526
    ip_network("2001::/23"),  # protocol assignments, Teredo among them, RFC 2928
    ip_network("2002::/16"),  # 6to4, RFC 3056: an IPv4 address is embedded
    ip_network("3fff::/20"),  # documentation, RFC 9637
)
_PRIVATE = (
    ip_network("127.0.0.0/8"),
    ip_network("10.0.0.0/8"),
    ip_network("172.16.0.0/12"),
    ip_network("192.168.0.0/16"),
    ip_network("::1/128"),
    ip_network("fc00::/7"),
)
# Within fc00::/7: where cloud providers serve a machine's own credentials.
_METADATA = (
    ip_network("fd00:ec2::/32"),  # Amazon
    ip_network("fd20:ce::/32"),  # Google
    ip_network("fd00:c1::/32"),  # Oracle
)


def is_plain_name(host: str) -> bool:
    """Whether it is a DNS name as RFC 1123 has it, in lower case, that nothing can take for an IP address."""
    return len(host) <= 253 and _NAME.fullmatch(host) is not None and _NUMBER.fullmatch(host.rpartition(".")[2]) is None


def literal(host: str) -> Address | None:
    """The address that the host is in the standard form of one, without brackets; None for everything else."""
    try:
        return ip_address(host)
    except ValueError:
        return None


def is_public(address: Address) -> bool:
    """Whether it is a unicast address of the public internet."""
    if (
        not address.is_global
        or address.is_multicast
        or _is_scoped(address)
        or any(address in network for network in _SPECIAL)
    ):
        return False
    return isinstance(address, IPv4Address) or address in _GLOBAL_UNICAST_V6


def is_private(address: Address) -> bool:
    """Whether it is loopback or of a private network (RFC 1918, RFC 4193).

    Link-local, carrier-grade NAT and unspecified addresses are not: no system of anyone's is configured there, but
    the metadata services of clouds are.
    """
    if _is_scoped(address):
        return False
    return any(address in network for network in _PRIVATE) and not any(address in network for network in _METADATA)


def _is_scoped(address: Address) -> bool:
    return isinstance(address, IPv6Address) and address.scope_id is not None
