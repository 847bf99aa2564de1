"""A team's own remote systems, as a setting names them."""

import re

from gateways.egress import base_url
from gateways.registry import HELPDESKS, ORDER_SYSTEMS, PAYMENT_GATEWAYS
from schemas import strict_json
from schemas.tools import EFFECT_QUEUES

_NAME = re.compile(r"[a-z][a-z0-9_-]{1,31}")
# Names that mean something already: systems, their adapters in the vault, and what private networks are allowed to.
_TAKEN = frozenset((*EFFECT_QUEUES, "helpdesk", "identity", "witnesses", *PAYMENT_GATEWAYS, *ORDER_SYSTEMS, *HELPDESKS))


def is_taken(name: str) -> bool:
    """Whether a name means something already."""
    return name in _TAKEN


def read_systems(text: str) -> dict[str, str]:
    """Base URLs by name, from a JSON object. Raises ValueError, which says what is wrong and never a URL."""
    try:
        content = strict_json.loads(text.encode())
    except strict_json.UnreadableError:
        content = None
    if not isinstance(content, dict):
        raise ValueError("must be a JSON object of names, each with a base URL")
    systems: dict[str, str] = {}
    for name, base in content.items():
        if _NAME.fullmatch(name) is None or not isinstance(base, str):
            raise ValueError("must be a JSON object of names (a-z, 0-9, _ and -), each with a base URL")
        if is_taken(name):
            raise ValueError(f"the name {name} is taken")
        try:
            base_url(base)
        except ValueError as problem:
            raise ValueError(f"{name}: {problem}") from None
        systems[name] = base
    return systems
