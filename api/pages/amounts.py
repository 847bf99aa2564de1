"""Amounts as people type them. Pure."""

import re
from decimal import Decimal

from schemas.money import exponent

_AMOUNT = re.compile(r"[0-9]{1,9}(?:[.,][0-9]{1,3})?")


def minor_of(typed: str, currency: str) -> int | None:
    """An amount as people write it, e.g. `250.00`, in minor units; None for what is none."""
    if not _AMOUNT.fullmatch(typed):
        return None
    scaled = Decimal(typed.replace(",", ".")).scaleb(exponent(currency))
    return int(scaled) if scaled == scaled.to_integral_value() else None
