"""The fault script: what shall go wrong with the next matching requests. Parsing is pure; the script is a table."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError, model_validator

from sandbox.models import Identifier, Line, describe
from sandbox.state import State

Operation = Literal["refund", "list", "get"]


class Effect(Enum):
    """Whether the request is executed in spite of the fault."""

    NOTHING_HAPPENS = "nothing"
    EXECUTES = "executes"


@dataclass(frozen=True)
class Kind:
    """What a fault's name stands for: its effect, the argument after the colon, the operations it makes sense for."""

    effect: Effect
    argument: str | None = None
    only_refund: bool = False


_EXECUTES, _NOTHING = Kind(Effect.EXECUTES), Kind(Effect.NOTHING_HAPPENS)
_SECONDS = r"[0-9]{1,5}(\.[0-9]{1,3})?"
KINDS: dict[str, Kind] = {
    "commit_then_drop": _EXECUTES,
    "commit_then_500": _EXECUTES,
    "slow_drip": _EXECUTES,
    "delay": Kind(Effect.EXECUTES, argument=_SECONDS),
    "garbage": _EXECUTES,
    "html": _EXECUTES,
    "duplicate_keys": _EXECUTES,
    "wrong_amount": _EXECUTES,
    "wrong_id": _EXECUTES,
    "pending": Kind(Effect.EXECUTES, only_refund=True),
    "pending_then_failed": Kind(Effect.EXECUTES, only_refund=True),
    "late_visible": Kind(Effect.EXECUTES, argument=_SECONDS, only_refund=True),
    "drop_before_read": _NOTHING,
    "reset": _NOTHING,
    "redirect_self": _NOTHING,
    "redirect_other": _NOTHING,
    "429": Kind(Effect.NOTHING_HAPPENS, argument=r"[0-9]{1,5}(:(rate_limit|lock_timeout))?"),
    "503": _NOTHING,
    "503_forever": _NOTHING,
    "in_use": Kind(Effect.NOTHING_HAPPENS, only_refund=True),
    "already_refunded": Kind(Effect.NOTHING_HAPPENS, only_refund=True),
}


@dataclass(frozen=True)
class Fault:
    """A fault that now applies: its name and argument (`delay:2.5` is `delay` and `2.5`)."""

    do: str

    @property
    def name(self) -> str:
        return self.do.partition(":")[0]

    @property
    def argument(self) -> str:
        return self.do.partition(":")[2]

    @property
    def executes(self) -> bool:
        return KINDS[self.name].effect is Effect.EXECUTES

    @property
    def microseconds(self) -> int:
        """The argument as a time span, for the faults that have one."""
        whole, _, rest = self.argument.partition(".")
        return int(whole) * 1_000_000 + int(rest.ljust(6, "0"))


def _known(do: str) -> str:
    name, colon, argument = do.partition(":")
    kind = KINDS.get(name)
    if kind is None:
        raise ValueError(f"unknown fault '{do}'; known are {', '.join(sorted(KINDS))}")
    if kind.argument is None and colon:
        raise ValueError(f"'{name}' takes no argument")
    if kind.argument is not None and re.fullmatch(kind.argument, argument) is None:
        raise ValueError(f"'{name}' needs a number after a colon, as in '{name}:2'")
    return do


class FaultItem(Line):
    """One line of the script: the next `times` requests of this operation (and payment, if named) go wrong so."""

    operation: Operation
    do: Annotated[str, AfterValidator(_known)]
    times: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    payment_id: Identifier | None = None

    @model_validator(mode="after")
    def _fits(self) -> "FaultItem":
        if KINDS[self.do.partition(":")[0]].only_refund and self.operation != "refund":
            raise ValueError(f"'{self.do}' is for the operation 'refund' only")
        return self


_ITEMS = TypeAdapter(list[FaultItem])


class BadScriptError(Exception):
    """The list is not a fault script. The message names the item."""


def parse(body: bytes) -> list[FaultItem]:
    """A JSON list of fault items. Raises BadScriptError; nothing is to be appended then."""
    try:
        return _ITEMS.validate_json(body)
    except ValidationError as error:
        raise BadScriptError(describe(error)) from error


def append(state: State, items: list[FaultItem]) -> None:
    state.db.executemany(
        "INSERT INTO faults (operation, payment_id, do, times) VALUES (?, ?, ?, ?)",
        [(item.operation, item.payment_id, item.do, item.times) for item in items],
    )


def left(state: State) -> list[dict[str, Any]]:
    """What is left of the script, in order."""
    names = ("operation", "times", "do", "payment_id")
    rows = state.db.execute("SELECT * FROM faults ORDER BY seq")
    return [{name: row[name] for name in names if row[name] is not None} for row in rows]


def clear(state: State) -> None:
    state.db.execute("DELETE FROM faults")


def take(state: State, operation: Operation, payment_id: Callable[[], str | None]) -> Fault | None:
    """The fault that applies to this request, used up once; None when it goes well. Call in a transaction.

    `payment_id` is asked for only when the script names payments.
    """
    for row in state.db.execute("SELECT * FROM faults WHERE operation = ? ORDER BY seq", (operation,)):
        if row["payment_id"] is not None and row["payment_id"] != payment_id():
            continue
        if row["do"] != "503_forever":
            state.db.execute("UPDATE faults SET times = times - 1 WHERE seq = ?", (row["seq"],))
            state.db.execute("DELETE FROM faults WHERE seq = ? AND times <= 0", (row["seq"],))
        return Fault(row["do"])
    return None
