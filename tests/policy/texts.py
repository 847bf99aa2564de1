"""Small policies, and what is wrong with them."""

from pathlib import Path
from typing import Annotated

import pytest
from pydantic import Field

from policy.load import load_policy
from policy.problems import PolicyError
from policy.vocabulary import Vocabulary
from schemas.base import Model


class Order(Model):
    status: str
    age_minutes: int
    disputed: bool
    tags: tuple[str, ...] = ()
    nickname: Annotated[str | None, Field(description="may be missing")] = None


class Facts(Model):
    order: Order
    previous: Order | None = None


class Arguments(Model):
    order_id: str
    amount_cents: int
    currency: str
    note: str | None = None


class LookUp(Model):
    limit: int = 10


VOCABULARIES = {
    "issue_refund": Vocabulary.of(
        Arguments.model_json_schema(), Facts.model_json_schema(mode="serialization"), ["note"], ["money_movement"]
    ),
    "cancel_order": Vocabulary.of(LookUp.model_json_schema(), Facts.model_json_schema(mode="serialization")),
    "lookup_orders": Vocabulary.of(LookUp.model_json_schema()),
}

HEAD = """
name: test
defaults: {approvers: finance, deadline: 24h}
tools:
  issue_refund:
"""
TAIL = "    otherwise: notify\n"


def rule(text: str) -> str:
    """A policy with one rule, whose lines these are."""
    lines = "\n".join(f"        {line}" for line in text.strip().splitlines())
    return f"{HEAD}    rules:\n      - name: one\n{lines}\n{TAIL}"


def problems(path: Path, *, checked: bool = True) -> list[str]:
    """What is wrong, without the file's name."""
    with pytest.raises(PolicyError) as raised:
        load_policy(path, VOCABULARIES if checked else None)
    assert str(raised.value) == "\n".join(str(problem) for problem in raised.value.problems)
    assert all(problem.file.startswith(str(path)) for problem in raised.value.problems)
    return [": ".join(part for part in problem[1:] if part) for problem in raised.value.problems]
