"""What `tools check` finds in schemas and descriptions, and what it leaves alone."""

from copy import copy
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, create_model

from schemas.base import Model
from tools.catalog import Catalog, Entry
from tools.linting import ALIKE, likeness, lint
from tools.protocol import Arguments

CATALOG = Catalog.load()


class Bounded(Model):
    city: Annotated[str, Field(max_length=80)]


class Loose(Model):
    city: str


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")


def with_argument(name: str, kind: Any) -> Entry:
    """A built-in tool that takes this argument alone."""
    entry = CATALOG.get("lookup_orders")
    assert entry is not None

    model: Any = create_model  # its overloads do not take names that are made up
    given = model("Given", __base__=Arguments, **{name: (kind, ...)})
    tool: Any = copy(entry.tool)
    tool.arguments_model = given
    return replace(entry, tool=tool, manifest_file=Path("manifest.yaml"))


def with_description(name: str, description: str, *, published: bool = True) -> Entry:
    entry = CATALOG.get("lookup_orders")
    assert entry is not None
    manifest = entry.manifest.model_copy(update={"name": name, "description": description, "published": published})
    return replace(entry, manifest=manifest, manifest_file=Path(f"{name}.yaml"))


def test_what_is_built_in_comes_out_clean() -> None:
    assert lint(CATALOG.all()) == []


@pytest.mark.parametrize(
    ("name", "kind", "problem"),
    [
        ("amount_cents", int, "amount_cents: a number without minimum and maximum"),
        ("limit", Annotated[int, Field(ge=1)], "limit: a number without maximum"),
        ("order_id", str, "order_id: an id without a pattern"),
        ("order_id", Annotated[str, Field(max_length=20)], "order_id: an id without a pattern"),
        ("order_id", Annotated[str, Field(pattern="ord_[0-9]{3}")], "order_id: text without maxLength"),
        ("order_id", Annotated[str, Field(pattern="^ord_[0-9]+$")], "order_id: text without maxLength"),
        ("reason", Annotated[str, Field(max_length=20)], "reason: free text where an enum fits"),
        ("shipping_method", str | None, "shipping_method: free text where an enum fits"),
        ("note", str, "note: text without maxLength"),
        ("tags", list[Literal["a"]], "tags: a list without maxItems"),
        ("notes", Annotated[list[str], Field(max_length=3)], "notes[]: text without maxLength"),
        ("address", Loose, "address.city: text without maxLength"),
        ("extra", dict[str, int], "extra: takes fields that it does not name: forbid others"),
        ("extra", Open, "extra: takes fields that it does not name: forbid others"),
        ("anything", Any, "anything: takes anything: give it a type"),
        ("customer_id", Annotated[str, Field(pattern="^cus_[0-9]{3}$")], "customer_id: who a call is for is bound"),
        ("user", Literal["a", "b"], "user: who a call is for is bound"),
        ("tenant", Literal["a", "b"], "tenant: who a call is for is bound"),
    ],
)
def test_what_is_too_loose_is_named_with_its_file_and_field(name: str, kind: Any, problem: str) -> None:
    (found,) = lint([with_argument(name, kind)])
    assert found.startswith(f"manifest.yaml: arguments.{problem}")


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("amount_cents", Annotated[int, Field(gt=0, lt=10)]),
        ("order_id", Annotated[str, Field(pattern=r"^ord_[0-9A-Za-z]{12}$")]),
        ("order_ids", Annotated[list[Annotated[str, Field(pattern="^o[0-9]{2}$")]], Field(max_length=5)]),
        ("reason_code", Literal["a", "b"] | None),
        ("note", Annotated[str | None, Field(max_length=280)]),
        ("address", Bounded),
        ("gift", bool),
        ("userguide", Annotated[str, Field(max_length=9)]),
    ],
)
def test_what_is_tight_is_left_alone(name: str, kind: Any) -> None:
    assert lint([with_argument(name, kind)]) == []


def test_what_an_agent_is_offered_says_what_it_is_not_for() -> None:
    entry = with_description("one", "Lists the orders of this customer.")
    assert lint([entry]) == ["one.yaml: description: does not say what the tool is not for, and what to use instead"]
    assert lint([with_description("one", "Lists the orders.", published=False)]) == []
    assert lint([with_description("one", "Lists the orders. Do not use it for refunds: use another.")]) == []


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Lists the orders of the customer, newest first.", "Gets a customer's orders, newest first."),
        ("Cancels an order that is still open.", "Voids an open order."),
        (
            "Changes the delivery address of an order. Do not use it for a parcel that was shipped.",
            "Updates the delivery address of one order. Do not use it when the customer wants money back.",
        ),
        ("Looks up where a shipment is.", "Find out where shipments are."),
    ],
)
def test_two_tools_for_the_same_request_are_found(one: str, other: str) -> None:
    assert likeness(one, other) >= ALIKE
    entries = [
        with_description("one", f"{one} Do not use it otherwise."),
        with_description("two", f"{other} Not for A."),
    ]
    (problem,) = lint(entries)
    assert problem.startswith("two.yaml: description: answers the same request as one")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Refunds an order.", "Cancels an order."),
        ("Looks up where a parcel is.", "Looks up what a customer paid."),
        (
            "Drafts a reply to a ticket, which a person reads first.",
            "Sends a reply to a ticket that a person approved.",
        ),
        ("Lists orders. Do not use it to list refunds.", "Lists refunds. Do not use it to list orders."),
    ],
)
def test_tools_for_different_requests_are_not(one: str, other: str) -> None:
    assert likeness(one, other) < ALIKE


def test_nothing_of_what_is_built_in_is_near() -> None:
    published = [entry.manifest.description for entry in CATALOG.published()]
    assert max(likeness(one, other) for one, other in combinations(published, 2)) < ALIKE - 0.15
