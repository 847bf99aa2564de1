"""Money is an integer of minor units and an ISO 4217 code. Floats do not exist here."""

from decimal import Decimal
from typing import Annotated

from pydantic import Field, StringConstraints

from schemas.base import Model

Currency = Annotated[str, StringConstraints(pattern=r"^[A-Z]{3}$")]
Minor = Annotated[int, Field(ge=0)]

# ISO 4217 minor-unit exponents that are not 2.
_ZERO = "BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX UYI VND VUV XAF XOF XPF".split()  # noqa: SIM905
_THREE = ["BHD", "IQD", "JOD", "KWD", "LYD", "OMR", "TND"]
_EXPONENTS: dict[str, int] = dict.fromkeys(_ZERO, 0) | dict.fromkeys(_THREE, 3)


def exponent(currency: str) -> int:
    """Decimal places of a currency's minor unit (ISO 4217): 2 for USD, 0 for JPY, 3 for KWD."""
    return _EXPONENTS.get(currency, 2)


class Money(Model):
    """An amount, e.g. `Money(amount=4999, currency="USD")` is 49.99 US dollars."""

    amount: Minor
    currency: Currency

    @property
    def decimal(self) -> Decimal:
        """The amount in major units, exact."""
        return Decimal(self.amount).scaleb(-exponent(self.currency))

    def __str__(self) -> str:
        return f"{self.decimal:.{exponent(self.currency)}f} {self.currency}"
