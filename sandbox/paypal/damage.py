"""Answers that are not true, in PayPal's shapes."""

import json
from collections.abc import Callable
from typing import Any

from sandbox.paypal import shapes
from sandbox.paypal.shapes import Shape


def with_duplicate_keys(body: bytes) -> bytes:
    """The JSON object with each of its keys a second time, all empty."""
    shape: Shape = json.loads(body)
    again: Shape = {key: "" if isinstance(value, str) else [] for key, value in shape.items()}
    return body[:-1] + b"," + json.dumps(again)[1:].encode()


def with_wrong_amount(body: bytes) -> bytes:
    """The same answer with every refund's (or the capture's own) amount one smallest unit higher."""

    def change(shape: Shape) -> Shape:
        amount = shape["amount"]
        units = shapes.smallest_units(amount["value"], amount["currency_code"])
        return {"amount": shapes.money(units + 1, amount["currency_code"])}

    return _alter(body, change)


def with_wrong_id(body: bytes) -> bytes:
    """The same answer with another `custom_id`: its last character is another one."""

    def change(shape: Shape) -> Shape:
        given: str | None = shape.get("custom_id")
        return {} if given is None else {"custom_id": given[:-1] + ("1" if given.endswith("0") else "0")}

    return _alter(body, change)


def _alter(body: bytes, change: Callable[[Shape], Shape]) -> bytes:
    shape: Shape = json.loads(body)
    if "purchase_units" in shape:
        for unit in shape["purchase_units"]:
            made: list[Any] = unit["payments"].get("refunds", [])
            unit["payments"]["refunds"] = [each | change(each) for each in made]
    elif "amount" in shape:
        shape |= change(shape)
    return json.dumps(shape, separators=(",", ":")).encode()
